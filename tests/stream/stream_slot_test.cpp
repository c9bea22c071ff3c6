// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_slot.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace msstream::testing {
namespace {

// A launch that notified nobody, although the other thread sleeps or is about to, would leave it
// waiting for ever.
TEST(StreamSlot, a_launch_wakes_the_thread_that_waits_for_it) {
  constexpr std::uint64_t kRounds = 20'000;
  detail::StreamSlot slot(0);
  std::atomic<std::uint64_t> woken{0};
  std::thread waiting([&] {
    for (std::uint64_t number = 1; number <= kRounds; ++number) {
      slot.await_launched(number);
      woken.store(number);
      woken.notify_one();
    }
  });
  for (std::uint64_t number = 1; number <= kRounds; ++number) {
    while (slot.waiting.load() == 0) {
      std::this_thread::yield();
    }
    slot.publish_launched(number);
    woken.wait(number - 1);
  }
  waiting.join();
  EXPECT_EQ(slot.waiting.load(), 0U);
}

}  // namespace
}  // namespace msstream::testing
