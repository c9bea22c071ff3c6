// SPDX-License-Identifier: Apache-2.0
#include "memory/supply/capacity.hpp"

#include "memory/run_threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <memory>

namespace msstream::memory {
namespace {

TEST(CapacityTest, is_taken_up_to_its_limit_or_a_lower_one) {
  Capacity capacity(100);
  EXPECT_TRUE(capacity.take(60, 100));
  EXPECT_FALSE(capacity.take(41, 1000)) << "its own limit";
  EXPECT_FALSE(capacity.take(20, 79)) << "the caller's";
  EXPECT_FALSE(capacity.take(static_cast<std::size_t>(-1), 100)) << "which would wrap";
  EXPECT_EQ(capacity.reserved_bytes(), 60U);
  EXPECT_TRUE(capacity.take(40, 100));
  capacity.give_back(100);
  EXPECT_EQ(capacity.reserved_bytes(), 0U);
  EXPECT_EQ(capacity.peak_reserved_bytes(), 100U);
}

TEST(CapacityTest, within_another_counts_a_part_of_it) {
  auto const whole = std::make_shared<Capacity>(100);
  ASSERT_TRUE(whole->take(30, 100));
  {
    Capacity part(whole);
    EXPECT_EQ(part.limit_bytes(), 100U);
    EXPECT_TRUE(part.take(50, 50)) << "the caller's limit is for the part";
    EXPECT_FALSE(part.take(1, 50));
    EXPECT_EQ(whole->reserved_bytes(), 80U) << "what was refused is not taken";
    EXPECT_EQ(whole->peak_reserved_bytes(), 80U) << "and was not for a moment";
    EXPECT_TRUE(part.has_room(20, 100));
    EXPECT_FALSE(part.has_room(21, 100));
    EXPECT_FALSE(part.has_room(1, 50));
    EXPECT_FALSE(part.take(21, 100)) << "the whole has no room";
    EXPECT_EQ(part.reserved_bytes(), 50U);
    EXPECT_EQ(part.all_reserved_bytes(), 80U);
    part.give_back(50);
  }
  EXPECT_EQ(whole->reserved_bytes(), 30U);
}

/// Threads take bytes from one Capacity without a common lock, as pools that share a limit do.
TEST(CapacityTest, is_never_exceeded_by_threads_that_race) {
  constexpr int kThreads = 16;
  constexpr int kTakes = 1'000'000;
  constexpr std::size_t kLimit = 1;  // so small that two takes at once exceed the limit
  Capacity capacity(kLimit);
  std::atomic<std::size_t> held{0};
  std::atomic<int> exceeded{0};
  std::atomic<int> taken{0};
  std::barrier all(kThreads);
  testing::run_threads(kThreads, [&](int) {
    all.arrive_and_wait();
    for (int take = 0; take < kTakes; ++take) {
      if (capacity.take(1, kLimit)) {
        exceeded += ++held > kLimit ? 1 : 0;
        ++taken;
        --held;
        capacity.give_back(1);
      }
    }
  });
  EXPECT_EQ(exceeded, 0);
  EXPECT_GT(taken, 0);
  EXPECT_EQ(capacity.reserved_bytes(), 0U);
  EXPECT_LE(capacity.peak_reserved_bytes(), kLimit);
}

}  // namespace
}  // namespace msstream::memory
