// SPDX-License-Identifier: Apache-2.0
// Tests that random programs on several threads, which share one device, pool and allocator, cause
// no race, wrong value or leak.
#include "base/many.hpp"
#include "trust/run_program.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::size_t kStepsOfAProgram = 60;

class ConcurrentPrograms : public ::testing::TestWithParam<LaunchThreads> {};
INSTANTIATE_TEST_SUITE_P(LaunchThreads,
                         ConcurrentPrograms,
                         ::testing::Values(LaunchThreads::none,
                                           LaunchThreads::shared,
                                           LaunchThreads::per_group));

TEST_P(ConcurrentPrograms, are_in_order_beside_each_other) {
  constexpr std::uint32_t kThreads = 4;
  for (std::uint32_t seed = 0; seed < many(60); ++seed) {
    Choices choose(seed);
    std::vector<Choices> programs;
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      programs.emplace_back(seed * 1000 + t);
    }
    ASSERT_NO_THROW(run_beside_each_other(
        choose, {.groups = 3, .launch_threads = GetParam()}, std::move(programs), kStepsOfAProgram))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace msstream::testing
