// SPDX-License-Identifier: Apache-2.0
#include "embedding/plain_tuning.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels::testing {
namespace {

TEST(PlainTuningTest, blocks_have_few_idle_lanes_and_fit) {
  for (int lanes = 1; lanes <= kPlainThreads; ++lanes) {
    for (int const least : {64, 128, 256}) {
      int const bags = bags_of_block(lanes, least);
      int const threads = bags * lanes;
      ASSERT_GE(bags, 1) << lanes;
      ASSERT_LE(threads, kPlainThreads) << lanes;
      // No block of at least so many threads leaves a smaller share of its warps idle.
      auto const idle = [](int of) { return static_cast<double>((32 - of % 32) % 32) / of; };
      for (int other = 1; other * lanes <= kPlainThreads; ++other) {
        if (other * lanes >= least) {
          ASSERT_GE(threads, least) << lanes;
          ASSERT_LE(idle(threads), idle(other * lanes)) << lanes << " lanes, " << other << " bags";
        }
      }
    }
  }
  EXPECT_EQ(bags_of_block(32, 128), 4);
  EXPECT_EQ(bags_of_block(24, 128), 8);
  EXPECT_EQ(bags_of_block(28, 128), 8);
  EXPECT_EQ(bags_of_block(256, 64), 1);
}

TEST(PlainTuningTest, staged_bags_are_padded_and_read_different_banks) {
  for (std::uint32_t hotness = 1; hotness < 300; ++hotness) {
    EXPECT_GE(rounds_of(hotness), hotness);
    EXPECT_EQ(rounds_of(hotness) % kRowsOfRound, 0U);
    EXPECT_LT(rounds_of(hotness) - hotness, kRowsOfRound);
    EXPECT_EQ(staged_rows(hotness) % 8, 4U);
    EXPECT_GE(staged_rows(hotness), rounds_of(hotness));
  }
}

TEST(PlainTuningTest, shared_memory_limits_the_bags_of_a_block) {
  for (int const lanes : {1, 4, 24, 32, 256}) {
    for (std::int64_t const hotness : {9, 64, 65, 200, 1'000, 12'000, 13'000, 2'000'000}) {
      for (int const total : {0, 32, 64}) {
        PlainShape const shape{50'000, hotness, lanes * 16, lanes, total};
        auto const block = plain_block(shape, true);
        auto const a_bag =
            std::int64_t{4} * staged_rows(static_cast<std::uint32_t>(hotness)) + total * lanes;
        EXPECT_EQ(block.bags == 0, a_bag > kMostSharedBytes) << lanes << " " << hotness;
        EXPECT_LE(block.threads(), kPlainThreads);
        EXPECT_EQ(block.shared_bytes, a_bag * block.bags);
        EXPECT_LE(block.shared_bytes, kMostSharedBytes);
      }
    }
  }
  EXPECT_EQ(plain_block({50'000, 5, 512, 32, 0}, false).shared_bytes, 0);
}

TEST(PlainTuningTest, few_bags_have_small_blocks) {
  EXPECT_EQ(plain_block({256, 3, 512, 32, 0}, false).threads(), 64);
  EXPECT_EQ(plain_block({65'536, 3, 512, 32, 0}, false).threads(), 128);
}

TEST(PlainTuningTest, few_bags_have_more_rows_in_flight) {
  EXPECT_EQ(rows_at_once(1'000, 32), 16);
  EXPECT_EQ(rows_at_once(2'000, 32), 8);
}

TEST(PlainTuningTest, shapes_of_other_kernels) {
  EXPECT_TRUE(has_much_of_one_id({65'536, 1, 512, 32, 0}));
  EXPECT_FALSE(has_much_of_one_id({65'536, 2, 512, 32, 0}));
  EXPECT_FALSE(has_much_of_one_id({16'384, 1, 512, 32, 0}));
  EXPECT_TRUE(has_few_long_bags(256, 100, 32, 4));
  EXPECT_FALSE(has_few_long_bags(256, 30, 32, 4));
  EXPECT_FALSE(has_few_long_bags(256, 100, 3, 4));
  EXPECT_FALSE(has_few_long_bags(1'000, 100, 64, 4));
  EXPECT_TRUE(has_few_long_bags(1'000, 100, 16, 8));
  EXPECT_FALSE(has_few_long_bags(1'000, 100, 24, 8));
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
