// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_fixture.hpp"

#include <msstream/base/text.hpp>
#include <msstream/serve/query_queue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace msstream::serve {
namespace {

using Random = ops::kernels::testing::Random;

/// What waits, in the order in which it came, and the definition of who is next.
class SlowQueue {
 public:
  void push(WaitingQuery* query) { waiting_.push_back(query); }
  [[nodiscard]] WaitingQuery* first() const {
    auto const found =
        std::max_element(waiting_.begin(), waiting_.end(), [](auto const* left, auto const* right) {
          return left->priority < right->priority;
        });
    return found == waiting_.end() ? nullptr : *found;
  }
  [[nodiscard]] WaitingQuery* first_due() const {
    auto const found =
        std::min_element(waiting_.begin(), waiting_.end(), [](auto const* left, auto const* right) {
          return left->deadline < right->deadline;
        });
    return found == waiting_.end() ? nullptr : *found;
  }
  void remove(WaitingQuery* query) { std::erase(waiting_, query); }
  [[nodiscard]] std::vector<WaitingQuery*> const& waiting() const { return waiting_; }

 private:
  std::vector<WaitingQuery*> waiting_;
};

Clock::time_point at(std::int64_t ms) {
  return Clock::time_point(std::chrono::milliseconds(ms));
}

TEST(QueryQueue, gives_what_the_definition_says) {
  Random random;
  SCOPED_TRACE(text("seed ", random.seed()));
  constexpr std::size_t kCapacity = 20;
  QueryQueue queue(kCapacity);
  SlowQueue slow;
  std::int64_t next_deadline = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random.integer(0, 9) < 5) {
      auto* const place = queue.reserve();
      ASSERT_EQ(place == nullptr, slow.waiting().size() == kCapacity);
      if (place != nullptr) {
        place->ticket.rows = random.integer(1, 9);
        place->ticket.admitted_at = at(step);
        place->priority = static_cast<Priority>(random.integer(0, 2));
        // Each its own: who is due first is then one.
        place->deadline = random.integer(0, 1) == 0
                              ? Clock::time_point::max()
                              : at(random.integer(0, 1000) * 100'000 + ++next_deadline);
        queue.push(*place);
        slow.push(place);
      }
    } else if (random.integer(0, 3) == 0) {
      auto const now = at(random.integer(0, 1000) * 100'000);
      auto* const expected = slow.first_due();
      auto* const expired = queue.take_expired(now);
      ASSERT_EQ(expired, expected != nullptr && expected->deadline <= now ? expected : nullptr);
      if (expired != nullptr) {
        slow.remove(expired);
        queue.release(*expired);
      }
    } else {
      auto const most_rows = random.integer(1, 9);
      auto* const expected = slow.first();
      auto* const taken = queue.take(most_rows);
      ASSERT_EQ(taken,
                expected != nullptr && expected->ticket.rows <= most_rows ? expected : nullptr);
      if (taken != nullptr) {
        slow.remove(taken);
        queue.release(*taken);
      }
    }
    auto const outlook = queue.outlook();
    std::int64_t rows = 0;
    auto oldest = Clock::time_point::max();
    for (auto const* query : slow.waiting()) {
      rows += query->ticket.rows;
      oldest = std::min(oldest, query->ticket.admitted_at);
    }
    ASSERT_EQ(outlook.rows, rows);
    ASSERT_EQ(outlook.oldest_admitted_at, oldest);
    ASSERT_EQ(outlook.next_deadline,
              slow.first_due() != nullptr ? slow.first_due()->deadline : Clock::time_point::max());
    ASSERT_EQ(queue.waiting(), slow.waiting().size());
    ASSERT_EQ(queue.empty(), slow.waiting().empty());
  }
}

TEST(QueryQueue, threads_lose_nothing) {
  constexpr int kThreads = 4;
  constexpr std::int64_t kEach = 5'000;
  QueryQueue queue(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (std::int64_t j = 0; j < kEach;) {
        if (auto* const place = queue.reserve()) {
          place->ticket.rows = i * kEach + j++;
          place->priority = static_cast<Priority>(j % 3);
          place->deadline = j % 2 == 0 ? Clock::time_point::max() : at(j);
          queue.push(*place);
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::vector<int> seen(static_cast<std::size_t>(kThreads * kEach));
  for (std::int64_t got = 0; got < kThreads * kEach;) {
    auto* query = queue.take(kThreads * kEach);
    if (query == nullptr) {
      query = queue.take_expired(at(kEach));
    }
    if (query != nullptr) {
      ++seen[static_cast<std::size_t>(query->ticket.rows)];
      queue.release(*query);
      ++got;
    } else {
      std::this_thread::yield();
    }
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), kThreads * kEach);
}

}  // namespace
}  // namespace msstream::serve
