// SPDX-License-Identifier: Apache-2.0
// Tests that random programs cause no race, wrong value or leak while all mechanisms are switched
// on.
#include "base/many.hpp"
#include "trust/run_program.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace msstream::testing {
namespace {

constexpr std::uint32_t kShards = 8;
constexpr std::size_t kSteps = 60;

/// The shards of the random programs, as separate tests that can run in parallel.
class RandomPrograms : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, RandomPrograms, ::testing::Range(0U, kShards));

TEST_P(RandomPrograms, are_in_order_whatever_the_device_does_first) {
  for (std::uint32_t seed = GetParam(); seed < many_at_night(104'000); seed += kShards) {
    ASSERT_NO_THROW(run_simulated(Choices(seed), seed * 7919ULL, kSteps)) << "seed " << seed;
  }
}

TEST(RandomProgram, runs_again_by_its_seed) {
  // The seed of the program, the seed of the order, and the number of steps.
  run_simulated(Choices(4711), 4711 * 7919ULL, 60);
}

}  // namespace
}  // namespace msstream::testing
