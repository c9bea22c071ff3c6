// SPDX-License-Identifier: Apache-2.0
#include "order/vector_clock.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace msstream::order {
namespace {

TEST(VectorClock, covers_nothing_at_first) {
  VectorClock const clock;
  EXPECT_EQ(clock.streams(), 0U);
  EXPECT_EQ(clock[9], 0U);
  EXPECT_FALSE(clock.covers({9, 1}));
  EXPECT_TRUE(clock.covers({9, 0})) << "number 0 is before everything";
}

TEST(VectorClock, covers_all_up_to_what_it_was_raised_to) {
  VectorClock clock;
  clock.raise({3, 5});
  EXPECT_TRUE(clock.covers({3, 5}));
  EXPECT_TRUE(clock.covers({3, 4}));
  EXPECT_FALSE(clock.covers({3, 6}));
  EXPECT_FALSE(clock.covers({2, 1}));
  clock.raise({3, 2});
  EXPECT_EQ(clock[3], 5U) << "never lowered";
}

TEST(VectorClock, merges_the_newer_position_of_each_stream) {
  VectorClock a;
  a.raise({0, 4});
  a.raise({1, 1});
  VectorClock b;
  b.raise({1, 7});
  b.raise({5, 2});
  VectorClock longer = b;
  a.merge(b);
  longer.merge(a);
  for (auto const* merged : {&a, &longer}) {
    EXPECT_EQ((*merged)[0], 4U);
    EXPECT_EQ((*merged)[1], 7U);
    EXPECT_EQ((*merged)[5], 2U);
    EXPECT_EQ(merged->streams(), 6U);
  }
  EXPECT_EQ(b[0], 0U) << "the source stays as it was";
}

TEST(VectorClock, merges_itself) {
  VectorClock clock;
  clock.raise({2, 3});
  clock.merge(clock);
  EXPECT_EQ(clock[2], 3U);
}

TEST(VectorClock, counts_beyond_32_bits) {
  constexpr std::uint64_t kLarge = (std::uint64_t{1} << 32) + 1;
  VectorClock clock;
  clock.raise({0, kLarge});
  EXPECT_FALSE(clock.covers({0, kLarge + 1}));
  EXPECT_TRUE(clock.covers({0, 1}));
  clock.raise({0, std::numeric_limits<std::uint64_t>::max()});
  EXPECT_TRUE(clock.covers({0, kLarge + 1}));
}

TEST(VectorClock, forgets_when_cleared) {
  VectorClock clock;
  clock.raise({4, 9});
  clock.clear();
  EXPECT_FALSE(clock.covers({4, 1}));
  clock.raise({4, 1});
  EXPECT_EQ(clock[4], 1U);
}

}  // namespace
}  // namespace msstream::order
