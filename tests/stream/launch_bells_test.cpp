// SPDX-License-Identifier: Apache-2.0
#include <msstream/stream/launch_bells.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace msstream::testing {
namespace {

TEST(LaunchBells, a_launch_rings_those_that_wait_for_it_or_an_earlier_one_once) {
  LaunchBells bells;
  Doorbell early;
  Doorbell late;
  std::atomic<std::uint64_t> const launched{2};
  EXPECT_TRUE(bells.add(3, early, launched));
  EXPECT_TRUE(bells.add(5, late, launched));
  bells.launched(2);
  EXPECT_EQ(early.rung(), 0U);
  bells.launched(4);
  bells.launched(4);
  EXPECT_EQ(early.rung(), 1U);
  EXPECT_EQ(late.rung(), 0U);
  bells.launched(5);
  EXPECT_EQ(early.rung(), 1U);
  EXPECT_EQ(late.rung(), 1U);
}

TEST(LaunchBells, what_is_removed_does_not_ring) {
  LaunchBells bells;
  Doorbell bell;
  std::atomic<std::uint64_t> const launched{2};
  EXPECT_TRUE(bells.add(3, bell, launched));
  EXPECT_TRUE(bells.add(3, bell, launched));
  bells.remove(3, bell);
  bells.remove(7, bell);  // was never added
  bells.launched(3);
  EXPECT_EQ(bell.rung(), 1U);
  EXPECT_TRUE(bells.add(4, bell, launched));
  bells.remove(4, bell);
  bells.launched(9);
  EXPECT_EQ(bell.rung(), 1U);
}

TEST(LaunchBells, who_comes_after_the_launch_is_told) {
  LaunchBells bells;
  Doorbell bell;
  std::atomic<std::uint64_t> const launched{7};
  EXPECT_FALSE(bells.add(7, bell, launched));
  EXPECT_FALSE(bells.add(5, bell, launched));
  EXPECT_TRUE(bells.add(8, bell, launched));
}

TEST(LaunchBells, either_the_bell_rings_or_the_launch_is_seen) {
  constexpr std::uint64_t kLaunches = 20'000;
  LaunchBells bells;
  std::atomic<std::uint64_t> launched{0};
  std::atomic<std::uint64_t> heard{0};
  std::thread launching([&] {
    for (std::uint64_t number = 1; number <= kLaunches; ++number) {
      launched.store(number);
      bells.launched(number);
      while (heard.load() < number) {  // hangs if the other thread misses a launch
        std::this_thread::yield();
      }
    }
  });
  Doorbell bell;
  for (std::uint64_t number = 1; number <= kLaunches; ++number) {
    auto const rung = bell.rung();
    if (bells.add(number, bell, launched)) {
      bell.sleep(rung);
    }
    bells.remove(number, bell);
    heard.store(number);
  }
  launching.join();
}

}  // namespace
}  // namespace msstream::testing
