// SPDX-License-Identifier: Apache-2.0
// Tests how a data parallel step divides gradients into buckets.
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/record_step.hpp>

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class BucketSizes : public RanksTest<R> {
 protected:
  /// Returns the bytes of the buckets of a step with four square weights of this width, which is a
  /// multiple of 8.
  static std::vector<std::size_t> buckets_of(Rank<R> const& rank,
                                             std::int64_t width,
                                             DataParallelOptions const& options = {}) {
    Parameters<R> parameters(rank.device, {.seed = 1});
    std::vector<Tensor<float, R>> weights;
    for (auto const* const name : {"first", "second", "third", "fourth"}) {
      weights.push_back(parameters.dense(name, {width, width}));
    }
    DataParallel<R> const parallel(parameters, rank.communicator, options);
    auto const input = zeros<float>(rank.device, {1, width});
    GradientTape<R> tape(rank.device);
    auto const trace = record_step(rank.device, [&] {
      auto hidden = input;
      for (auto const& weight : weights) {
        hidden = ops::matmul(tape, hidden, weight);
      }
      parallel.backward(tape, ops::mean(tape, hidden));
      tape.clear();
    });
    std::vector<std::size_t> bytes;
    for (auto const& operation : trace.operations()) {
      if (operation.collective) {
        bytes.push_back(operation.collective->bytes);
      }
    }
    return bytes;
  }
};
TYPED_TEST_SUITE(BucketSizes, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(BucketSizes, gradients_that_would_fit_into_one_bucket_have_several_unless_few) {
  using ::testing::ElementsAre;
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    auto const bytes = [](std::size_t width) { return width * width * sizeof(float); };
    auto const of = [&](std::int64_t width, DataParallelOptions const& options = {}) {
      return BucketSizes<TypeParam>::buckets_of(rank, width, options);
    };
    EXPECT_THAT(of(520), ElementsAre(bytes(520), bytes(520), bytes(520), bytes(520)));
    EXPECT_THAT(of(360), ElementsAre(2 * bytes(360), 2 * bytes(360))) << "1.04 MB each";
    EXPECT_THAT(of(360, {.bucket_bytes = 600'000}),
                ElementsAre(bytes(360), bytes(360), bytes(360), bytes(360)));
  });
}

}  // namespace
}  // namespace msstream::testing
