// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"
#include "memory/runtimes.hpp"

#include <msstream/runtime/sim.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Tests of a world with one rank, which works on every runtime.
template <class R>
class OneRank : public RuntimeTest<R> {};
TYPED_TEST_SUITE(OneRank, Runtimes, RuntimeNames);

TYPED_TEST(OneRank, gets_its_own_elements_from_every_collective) {
  Device<TypeParam> const device;
  comm::Communicator<TypeParam> const alone(device);
  EXPECT_EQ(alone.rank(), 0);
  EXPECT_EQ(alone.size(), 1);
  std::vector<float> const values{1, 2, 3, 4};
  auto const input = to_device<float>(device, values, {4});
  auto const poisoned = [&] {
    Tensor<float, TypeParam> const output(device, {4});
    fill_bytes(output, 0xFF);
    return output;
  };
  for (auto const reduction :
       {comm::Reduction::sum, comm::Reduction::mean, comm::Reduction::max, comm::Reduction::min}) {
    all_reduce(alone, input, reduction);
    EXPECT_EQ(to_host(input), values);
    auto const reduced = poisoned();
    reduce_scatter(alone, input, reduced, reduction);
    EXPECT_EQ(to_host(reduced), values);
  }
  broadcast(alone, input);
  EXPECT_EQ(to_host(input), values);
  auto const gathered = poisoned();
  all_gather(alone, input, gathered);
  EXPECT_EQ(to_host(gathered), values);
  auto const exchanged = poisoned();
  all_to_all(alone, input, exchanged);
  EXPECT_EQ(to_host(exchanged), values);
  device.synchronize(barrier(alone));
  alone.synchronize();
}

TYPED_TEST(OneRank, exchanges_rows_by_counts) {
  Device<TypeParam> const device;
  comm::Communicator<TypeParam> const alone(device);
  auto const input = to_device<float>(device, std::vector<float>{1, 2, 3, 4}, {1, 4});
  Tensor<float, TypeParam> const output(device, {1, 4});
  Tensor<std::int64_t, TypeParam> const received(device, {1});
  fill_bytes(output, 0xFF);
  fill_bytes(received, 0xFF);
  all_to_all(alone,
             input,
             to_device<std::int64_t>(device, std::vector<std::int64_t>{3}, {1}),
             output,
             received);
  auto rows = to_host(output);
  rows.resize(3);
  EXPECT_THAT(rows, ElementsAre(1, 2, 3));
  EXPECT_THAT(to_host(received), ElementsAre(3));
}

TYPED_TEST(OneRank, takes_tensors_without_elements) {
  Device<TypeParam> const device;
  comm::Communicator<TypeParam> const alone(device);
  Tensor<float, TypeParam> const none(device, {0});
  all_reduce(alone, none);
  all_gather(alone, none, Tensor<float, TypeParam>(device, {0}));
  alone.synchronize();
}

TEST(OneRankOfSim, works_on_the_simulated_device) {
  Device<Sim> const device;
  comm::Communicator<Sim> const alone(device);
  auto const input = to_device<float>(device, std::vector<float>{1, 2}, {2});
  Tensor<float, Sim> const output(device, {2});
  all_gather(alone, input, output);
  EXPECT_THAT(to_host(output), ElementsAre(1, 2));
}

TEST(OneRankOfSim, several_ranks_need_a_runtime_whose_streams_have_threads) {
  comm::run_as_threads(2, [](comm::World const& world) {
    Device<Sim> const device;
    EXPECT_THAT(message_of<std::invalid_argument>(
                    [&] { comm::Communicator<Sim> const refused(device, world); }),
                HasSubstr("several ranks need the host runtime"));
  });
}

}  // namespace
}  // namespace msstream::testing
