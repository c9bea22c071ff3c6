// SPDX-License-Identifier: Apache-2.0
#include "memory/small/live_bytes.hpp"

#include "memory/run_threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace msstream::memory {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;
/// The most bytes that one part of the LiveBytes counter may hold without having reported them.
constexpr std::size_t kUntold = 2 * kMiB;

TEST(LiveBytesTest, are_those_of_all_parts) {
  LiveBytes live;
  std::array<LiveBytes::Part, 2> parts;
  live.enter(parts[0]);
  live.enter(parts[1]);
  live.add(parts[0], 100);
  live.add(parts[1], 3 * kMiB);
  live.subtract(parts[1], 2 * kMiB);
  EXPECT_EQ(parts[1].bytes(), kMiB);
  EXPECT_EQ(live.now(), kMiB + 100);
}

TEST(LiveBytesTest, of_parts_that_take_turns_are_no_peak_together) {
  LiveBytes live;
  std::array<LiveBytes::Part, 4> parts;
  for (auto& part : parts) {
    live.enter(part);
  }
  for (auto& part : parts) {
    live.add(part, 10 * kMiB);
    live.subtract(part, 10 * kMiB);
  }
  EXPECT_EQ(live.peak(), 10 * kMiB);
  live.add(parts[0], 6 * kMiB);
  live.add(parts[1], 6 * kMiB);
  EXPECT_EQ(live.peak(), 12 * kMiB);
  EXPECT_EQ(live.take_recent_peak(), 12 * kMiB);
  live.subtract(parts[0], 6 * kMiB);
  EXPECT_EQ(live.take_recent_peak(), 12 * kMiB) << "it was in use at the last call";
  EXPECT_EQ(live.take_recent_peak(), 6 * kMiB);
}

TEST(LiveBytesTest, have_a_peak_that_is_right_to_an_eighth) {
  constexpr std::size_t kKiB = std::size_t{1} << 10U;
  LiveBytes live;
  LiveBytes::Part part;
  live.enter(part);
  for (std::size_t bytes = 0; bytes < 32 * kMiB; bytes += kKiB) {
    live.add(part, kKiB);
    EXPECT_LE(live.peak(), live.now());
    EXPECT_GE(live.peak() + std::clamp(live.peak() / 8, 64 * kKiB, kMiB), live.now());
  }
}

TEST(LiveBytesTest, are_counted_by_threads_side_by_side) {
  constexpr int kThreads = 8;
  LiveBytes live;
  std::array<LiveBytes::Part, kThreads> parts;
  for (auto& part : parts) {
    live.enter(part);
  }
  testing::run_threads(kThreads, [&](int thread) {
    auto& part = parts[static_cast<std::size_t>(thread)];
    for (std::size_t i = 0; i < 10'000; ++i) {
      live.add(part, i % 7 * kMiB);
      live.subtract(part, i % 7 * kMiB);
    }
    live.add(part, 4 * kMiB);
  });
  EXPECT_EQ(live.now(), kThreads * 4 * kMiB);
  EXPECT_GE(live.peak() + kThreads * kUntold, kThreads * 4 * kMiB);
  EXPECT_LE(live.peak(), kThreads * 10 * kMiB);
}

}  // namespace
}  // namespace msstream::memory
