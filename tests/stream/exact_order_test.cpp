// SPDX-License-Identifier: Apache-2.0
#include "base/many.hpp"
#include "stream/random_program.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace msstream::testing {
namespace {

/// Returns the number of random programs of a test.
std::uint32_t programs() {
  return at_night() ? 12'000 : 3'000;
}

/// The number of recent events that a stream keeps. When a stream records more, it records its
/// oldest event again.
constexpr std::size_t kRecentEvents = 16;

void expect_counts_add_up(RandomProgram const& program) {
  auto const counts = program.counts();
  ASSERT_EQ(counts.needed, counts.issued + counts.elided);
  ASSERT_EQ(counts.issued, program.runtime().waits());
}

class ExactOrder : public ::testing::TestWithParam<ProgramOptions> {};

INSTANTIATE_TEST_SUITE_P(Programs,
                         ExactOrder,
                         ::testing::Values(ProgramOptions{.host_looks = false},
                                           ProgramOptions{.host_looks = true},
                                           ProgramOptions{.host_looks = true,
                                                          .streams_change = true}));

TEST_P(ExactOrder, every_conflict_is_ordered_and_no_wait_is_redundant_when_issued) {
  std::size_t overflowing = 0;
  std::uint64_t elided = 0;
  for (std::uint32_t seed = 0; seed < programs(); ++seed) {
    RandomProgram const program(seed, GetParam());
    ASSERT_EQ(program.races(), 0U) << "seed " << seed;
    ASSERT_EQ(program.redundant_waits(), 0U) << "seed " << seed;
    ASSERT_EQ(program.changed_events(), 0U) << "seed " << seed;
    expect_counts_add_up(program);
    overflowing += program.runtime().most_records() > kRecentEvents ? 1 : 0;
    elided += program.counts().elided;
  }
  EXPECT_GT(overflowing, programs() / 100) << "the programs must outrun the recent events";
  EXPECT_GT(elided, 0U);
}

TEST_P(ExactOrder, every_issued_wait_is_missed_when_it_is_left_out) {
  std::size_t left_out = 0;
  for (std::uint32_t seed = 0; seed < programs(); seed += 4) {
    RandomProgram const program(seed, GetParam());
    for (std::size_t wait = 0; wait < program.runtime().waits(); ++wait) {
      ASSERT_GT(program.races(wait), 0U) << "seed " << seed << ", wait " << wait;
      ++left_out;
    }
  }
  EXPECT_GT(left_out, programs());
}

TEST_P(ExactOrder, without_reduction_conflicts_are_ordered_too) {
  auto options = GetParam();
  options.reduce_waits = false;
  for (std::uint32_t seed = 0; seed < programs(); seed += 4) {
    RandomProgram const program(seed, options);
    ASSERT_EQ(program.races(), 0U) << "seed " << seed;
    expect_counts_add_up(program);
    if (!options.host_looks) {
      ASSERT_EQ(program.counts().needed, program.counts().issued) << "seed " << seed;
    }
  }
}

TEST(ExactOrderCheck, without_reduction_some_waits_are_redundant) {
  std::size_t redundant = 0;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    redundant += RandomProgram(seed, {.reduce_waits = false}).redundant_waits();
  }
  EXPECT_GT(redundant, 0U) << "else the check of redundancy sees nothing";
}

}  // namespace
}  // namespace msstream::testing
