// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>

#include <gmock/gmock.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

template <Runtime R>
using SymmetricTensor = RanksTest<R>;
TYPED_TEST_SUITE(SymmetricTensor, RankRuntimes, RuntimeNamesOfRanks);

/// Exchanges, gathers and sums symmetric tensors, and parts of them.
template <Runtime R>
void use_symmetric_tensors(comm::CommunicatorOptions const& options) {
  on_ranks<R>(
      2,
      [](Rank<R> const& rank) {
        constexpr std::int64_t kCount = 1024;
        auto const& ranks = rank.communicator;
        auto const input = comm::symmetric_tensor<float>(ranks, {kCount});
        auto const gathered = comm::symmetric_tensor<float>(ranks, {2, kCount});
        auto const exchanged = comm::symmetric_tensor<float>(ranks, {kCount});
        std::vector<float> own(kCount);
        for (std::size_t i = 0; i < own.size(); ++i) {
          own[i] = static_cast<float>(10'000 * rank.rank() + static_cast<int>(i));
        }
        fill_bytes(input, 0);
        CapturedStep<R> step(rank.device, [&] {
          comm::all_gather(ranks, input, gathered);
          comm::all_to_all(ranks, input, exchanged);
          comm::all_gather(ranks, input.rows(0, 512), gathered.rows(1, 2).reshaped({kCount}));
        });
        for (int i = 0; i < 3; ++i) {
          own[0] = static_cast<float>(i);
          copy(input, rank.tensor(own));
          fill_bytes(gathered, 0xFF);
          fill_bytes(exchanged, 0xFF);
          comm::all_gather(ranks, input, gathered);
          auto const whole = to_host(gathered);
          EXPECT_EQ(whole[0], i);
          EXPECT_EQ(whole[1], 1);
          EXPECT_EQ(whole[kCount], i);
          EXPECT_EQ(whole[kCount + 1], 10'001);
          fill_bytes(gathered, 0xFF);
          step.replay();
          auto const parts = to_host(exchanged);
          EXPECT_EQ(parts[1], rank.rank() == 0 ? 1 : 513);
          EXPECT_EQ(parts[513], rank.rank() == 0 ? 10'001 : 10'513);
          auto const of_step = to_host(gathered);
          EXPECT_EQ(of_step[1], 1);
          EXPECT_EQ(of_step[kCount + 1], 1);
          EXPECT_EQ(of_step[kCount + 513], 10'001);
        }
        comm::all_reduce(ranks, input);
        EXPECT_EQ(to_host(input)[1], 10'002);
      },
      options);
}

TYPED_TEST(SymmetricTensor, takes_part_in_collectives_eager_and_captured) {
  use_symmetric_tensors<TypeParam>({});
}

TYPED_TEST(SymmetricTensor, takes_part_in_collectives_by_copy_engines) {
  use_symmetric_tensors<TypeParam>(
      {.priority = StreamPriority::high, .most_sms = 8, .copy_engines = true});
}

TYPED_TEST(SymmetricTensor, outlives_its_communicator) {
  comm::run_as_threads(2, [](comm::World const& world) {
    auto const device = comm::device_of<TypeParam>(world);
    auto const tensor = [&] {
      comm::Communicator<TypeParam> const ranks(device, world);
      return comm::symmetric_tensor<std::int32_t>(ranks, {8});
    }();
    fill_bytes(tensor, 0xFF);
    EXPECT_EQ(to_host(tensor), std::vector<std::int32_t>(8, -1));
  });
}

TYPED_TEST(SymmetricTensor, of_other_shapes_on_other_ranks_is_refused_on_all) {
  std::array<std::string, 2> messages;
  on_ranks<TypeParam>(2, [&](Rank<TypeParam> const& rank) {
    try {
      static_cast<void>(comm::symmetric_tensor<float>(rank.communicator, {4, 1 + rank.rank()}));
    } catch (std::invalid_argument const& error) {
      messages.at(static_cast<std::size_t>(rank.rank())) = error.what();
    }
    auto const tensor = comm::symmetric_tensor<float>(rank.communicator, {4});
    fill_bytes(tensor, 0);
    comm::all_reduce(rank.communicator, tensor);
    EXPECT_EQ(to_host(tensor), std::vector<float>(4, 0)) << "the communicator stays usable";
  });
  for (auto const& message : messages) {
    EXPECT_THAT(
        message,
        HasSubstr("float32 of shape [4, 1] on rank 0, and float32 of shape [4, 2] on rank 1"));
  }
}

TYPED_TEST(SymmetricTensor, is_refused_inside_a_capture) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    EXPECT_THROW(
        CapturedStep<TypeParam>(
            rank.device,
            [&] { static_cast<void>(comm::symmetric_tensor<float>(rank.communicator, {4})); }),
        std::logic_error);
  });
}

TEST(CommunicatorOptionsTest, refuse_more_multiprocessors_than_nccl_takes) {
  Device<Host> const device;
  for (int const wrong : {-1, 65}) {
    try {
      comm::Communicator<Host> const refused(device, {}, {.name = "wide", .most_sms = wrong});
      FAIL() << "did not throw";
    } catch (std::invalid_argument const& error) {
      EXPECT_EQ(error.what(),
                "communicator 'wide': most_sms of " + std::to_string(wrong) +
                    "; expected 1 to 64, or 0 to let NCCL choose");
    }
  }
}

}  // namespace
}  // namespace msstream::testing
