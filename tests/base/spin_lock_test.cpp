// SPDX-License-Identifier: Apache-2.0
#include "base/spin_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace msstream {
namespace {

TEST(SpinLock, is_one_byte) {
  static_assert(sizeof(detail::SpinLock) == 1);
}

TEST(SpinLock, is_held_by_one_at_a_time) {
  detail::SpinLock lock;
  EXPECT_TRUE(lock.try_lock());
  std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(SpinLock, hands_over_what_its_holder_wrote) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 20'000;
  detail::SpinLock lock;
  long plain = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        std::lock_guard const guard(lock);
        ++plain;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(plain, long{kThreads} * kRounds);
}

TEST(SpinLock, waits_for_a_long_holder) {
  detail::SpinLock lock;
  lock.lock();
  std::atomic<bool> waiting{false};
  bool released = false;
  std::thread waiter([&] {
    waiting.store(true);
    waiting.notify_one();
    std::lock_guard const guard(lock);
    EXPECT_TRUE(released);
  });
  waiting.wait(false);
  released = true;
  lock.unlock();
  waiter.join();
}

}  // namespace
}  // namespace msstream
