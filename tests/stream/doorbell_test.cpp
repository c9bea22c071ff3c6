// SPDX-License-Identifier: Apache-2.0
#include "stream/doorbell.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using detail::Doorbell;

void await_sleeps(Doorbell const& bell, std::uint64_t sleeps) {
  while (bell.sleeps() < sleeps) {
    std::this_thread::yield();
  }
}

TEST(Doorbell, sleep_returns_at_once_when_the_bell_rang_before) {
  Doorbell bell;
  auto const rung = bell.rung();
  bell.ring();
  bell.sleep(rung);  // hangs if the ring is lost
  EXPECT_NE(bell.rung(), rung);
}

TEST(Doorbell, ringing_wakes_a_sleeper) {
  Doorbell bell;
  std::thread sleeper([&, rung = bell.rung()] { bell.sleep(rung); });
  await_sleeps(bell, 1);
  bell.ring();
  sleeper.join();
}

TEST(Doorbell, a_sleep_that_has_an_end_ends_then_or_when_the_bell_rings) {
  using std::chrono::steady_clock;
  Doorbell bell;
  auto const end = steady_clock::now() + std::chrono::milliseconds(1);
  bell.sleep_until(bell.rung(), end);  // hangs if the sleep ignores its end
  EXPECT_GE(steady_clock::now(), end);
  auto const late = steady_clock::now() + std::chrono::hours(1);
  std::thread sleeper([&, rung = bell.rung()] { bell.sleep_until(rung, late); });
  await_sleeps(bell, 2);
  bell.ring();
  sleeper.join();
}

TEST(Doorbell, ringing_for_all_wakes_all) {
  Doorbell bell;
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&, rung = bell.rung()] { bell.sleep(rung); });
  }
  await_sleeps(bell, 3);
  bell.ring_for_all();
  for (auto& sleeper : sleepers) {
    sleeper.join();
  }
}

TEST(Doorbell, nobody_is_woken_while_another_is_on_watch_and_no_ring_is_lost) {
  constexpr int kRounds = 2'000;
  Doorbell bell;
  std::atomic<int> work{0};
  std::atomic<int> done{0};
  auto const worker = [&](bool watches) {
    while (done.load() < kRounds) {
      auto const rung = bell.rung();
      auto open = work.load();
      if (open > 0 && work.compare_exchange_strong(open, open - 1)) {
        if (done.fetch_add(1) + 1 == kRounds) {
          bell.ring_for_all();
        }
      } else if (open <= 0 && done.load() < kRounds) {
        if (watches) {
          Doorbell::Watch const watching(bell);
          for (int i = 0; i < 50 && bell.rung() == rung; ++i) {
          }
        }
        bell.sleep(rung);
      }
    }
  };
  std::thread watching(worker, true);
  std::thread sleeping(worker, false);
  for (int i = 0; i < kRounds; ++i) {
    work.fetch_add(1);
    bell.ring();
  }
  watching.join();  // hangs if a ring was lost
  sleeping.join();
  EXPECT_EQ(done.load(), kRounds);
}

}  // namespace
}  // namespace msstream::testing
