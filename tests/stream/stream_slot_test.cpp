// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_slot.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace msstream::testing {
namespace {

// A launch that notifies nobody, although the other thread has gone to sleep or is about to, would
// leave both threads waiting for ever.
TEST(StreamSlot, threads_that_wait_for_each_others_launches_go_on) {
  constexpr std::uint64_t kRounds = 2'000;
  detail::StreamSlot first(0);
  detail::StreamSlot second(1);
  std::thread other([&] {
    for (std::uint64_t number = 1; number <= kRounds; ++number) {
      first.await_launched(number);
      second.publish_launched(number);
    }
  });
  for (std::uint64_t number = 1; number <= kRounds; ++number) {
    first.publish_launched(number);
    second.await_launched(number);
  }
  other.join();
  EXPECT_EQ(first.launched.load(), kRounds);
  EXPECT_EQ(second.launched.load(), kRounds);
}

}  // namespace
}  // namespace msstream::testing
