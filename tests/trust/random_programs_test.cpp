// SPDX-License-Identifier: Apache-2.0
// With everything at work no random program shows a race, a wrong value or a leak.
#include "trust/many.hpp"
#include "trust/run_program.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::uint32_t kShards = 8;
constexpr std::size_t kSteps = 60;

/// Apart, so that they run beside each other.
class RandomPrograms : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, RandomPrograms, ::testing::Range(0U, kShards));

TEST_P(RandomPrograms, AreInOrderWhateverTheDeviceDoesFirst) {
  for (std::uint32_t seed = GetParam(); seed < many(104'000); seed += kShards) {
    ASSERT_NO_THROW(run_simulated(Choices(seed), seed * 7919ULL, kSteps)) << "seed " << seed;
  }
}

class ConcurrentPrograms : public ::testing::TestWithParam<LaunchThreads> {};
INSTANTIATE_TEST_SUITE_P(LaunchThreads,
                         ConcurrentPrograms,
                         ::testing::Values(LaunchThreads::none,
                                           LaunchThreads::shared,
                                           LaunchThreads::per_group));

/// Programs on threads of their own, with one device, one pool and one allocator between them.
TEST_P(ConcurrentPrograms, AreInOrderBesideEachOther) {
  constexpr std::uint32_t kThreads = 4;
  for (std::uint32_t seed = 0; seed < many(60); ++seed) {
    Choices choose(seed);
    std::vector<Choices> programs;
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      programs.emplace_back(seed * 1000 + t);
    }
    ASSERT_NO_THROW(run_beside_each_other(
        choose, {.groups = 3, .launch_threads = GetParam()}, std::move(programs), kSteps))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace msstream::testing
