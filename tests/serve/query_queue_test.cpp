// SPDX-License-Identifier: Apache-2.0
#include "serve/query_queue.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace msstream::serve {
namespace {

using Random = ops::kernels::testing::Random;

constexpr std::chrono::milliseconds kAgeing{100};

Clock::time_point at(std::int64_t ms) {
  return Clock::time_point(std::chrono::milliseconds(ms));
}

/// A reference for the query queue: the waiting queries in the order of their arrival, and a search
/// by definition for the next one.
class SlowQueue {
 public:
  explicit SlowQueue(std::size_t capacity) : capacity_(capacity) {}

  void push(WaitingQuery* query) { waiting_.push_back(query); }
  [[nodiscard]] WaitingQuery* first(Clock::time_point now) const {
    auto const goes_before = [&](WaitingQuery const* left, WaitingQuery const* right) {
      auto const classes = class_of(*left, now) - class_of(*right, now);
      return classes != 0 ? classes > 0 : left->ticket.admitted_at < right->ticket.admitted_at;
    };
    auto const found = std::min_element(waiting_.begin(), waiting_.end(), goes_before);
    return found == waiting_.end() ? nullptr : *found;
  }
  [[nodiscard]] WaitingQuery* first_due() const {
    auto const found =
        std::min_element(waiting_.begin(), waiting_.end(), [](auto const* left, auto const* right) {
          return left->deadline < right->deadline;
        });
    return found == waiting_.end() ? nullptr : *found;
  }
  /// Returns the waiting query that a new query of the given priority displaces, or null.
  [[nodiscard]] WaitingQuery* displaced_by(Query::Priority priority) const {
    WaitingQuery* found = nullptr;
    for (auto* const query : waiting_) {
      found = query->priority < priority && (found == nullptr || query->priority <= found->priority)
                  ? query
                  : found;
    }
    return found;
  }
  [[nodiscard]] std::int64_t rows() const {
    std::int64_t rows = 0;
    for (auto const* query : waiting_) {
      rows += query->ticket.rows_needed;
    }
    return rows;
  }
  [[nodiscard]] Clock::time_point ready_at(Batching const& batching) const {
    auto oldest = Clock::time_point::max();
    bool has_high = false;
    for (auto const* query : waiting_) {
      oldest = std::min(oldest, query->ticket.admitted_at);
      has_high = has_high || query->priority == Query::Priority::high;
    }
    if (waiting_.empty() || !batching.together || has_high || rows() >= batching.most_rows ||
        waiting_.size() == capacity_) {
      return oldest;
    }
    auto const* const next = first_due();
    auto const half = (next->deadline - next->ticket.admitted_at) / 2;
    return std::min(
        oldest + batching.delay,
        next->deadline == Clock::time_point::max()
            ? Clock::time_point::max()
            : next->deadline - std::min<Clock::duration>(batching.before_deadline, half));
  }
  void remove(WaitingQuery* query) { std::erase(waiting_, query); }
  [[nodiscard]] std::vector<WaitingQuery*> const& waiting() const { return waiting_; }
  [[nodiscard]] bool is_full() const { return waiting_.size() == capacity_; }

 private:
  static std::int64_t class_of(WaitingQuery const& query, Clock::time_point now) {
    std::int64_t its = static_cast<std::int64_t>(query.priority);
    for (auto waited = now - query.ticket.admitted_at; waited >= kAgeing; waited -= kAgeing) {
      ++its;
    }
    return std::min<std::int64_t>(its, 2);
  }

  std::size_t capacity_;
  std::vector<WaitingQuery*> waiting_;
};

TEST(QueryQueue, gives_what_the_definition_says) {
  Random random;
  SCOPED_TRACE(fmt::format("seed {}", random.seed()));
  constexpr std::size_t kCapacity = 20;
  QueryQueue queue(kCapacity, kAgeing);
  SlowQueue slow(kCapacity);
  std::vector<WaitingQuery*> displaced;
  std::int64_t next_deadline = 0;
  std::int64_t displacements = 0;
  std::int64_t aged = 0;
  for (int step = 0; step < 40'000; ++step) {
    // Alternates phases in which the queue becomes full and phases in which it does not.
    bool const may_fill = step / 500 % 2 == 0;
    if (random.integer(0, 9) < (may_fill ? 7 : 5)) {
      auto const priority = static_cast<Query::Priority>(random.integer(0, 2));
      auto* const victim = slow.is_full() ? slow.displaced_by(priority) : nullptr;
      auto* const place = queue.reserve(priority);
      ASSERT_EQ(place == nullptr, slow.is_full() && victim == nullptr);
      if (victim != nullptr) {
        slow.remove(victim);
        displaced.push_back(victim);
        ++displacements;
        ASSERT_EQ(queue.next_due(), Clock::time_point::min());
        ASSERT_EQ(queue.take_due(at(0)), victim);
        ASSERT_TRUE(victim->is_displaced);
        queue.release(*victim);
      }
      if (place != nullptr) {
        place->ticket.rows_needed = random.integer(1, 9);
        place->ticket.admitted_at = at(step);
        place->priority = priority;
        // Gives each query a deadline of its own, so that at most one query is due first.
        place->deadline = random.integer(0, 1) == 0 ? Clock::time_point::max()
                                                    : at(step + random.integer(1, 100)) +
                                                          std::chrono::nanoseconds(++next_deadline);
        queue.push(*place);
        slow.push(place);
      }
    } else if (random.integer(0, 3) == 0) {
      auto const now = at(step + random.integer(-100, 50));
      auto* const expected = slow.first_due();
      auto* const expired = queue.take_due(now);
      ASSERT_EQ(expired, expected != nullptr && expected->deadline <= now ? expected : nullptr);
      if (expired != nullptr) {
        ASSERT_FALSE(expired->is_displaced);
        slow.remove(expired);
        queue.release(*expired);
      }
    } else {
      Batching const batching{.most_rows = random.integer(9, 60),
                              .together = random.integer(0, 1) == 1,
                              .delay = std::chrono::milliseconds(random.integer(0, 30)),
                              .before_deadline = std::chrono::milliseconds(random.integer(0, 9))};
      auto const now = at(step);
      auto const ready_at = slow.ready_at(batching);
      ASSERT_EQ(queue.ready_at(batching), ready_at);
      std::vector<WaitingQuery*> taken;
      ASSERT_EQ(queue.take(batching, now, taken) == 0, ready_at > now);
      std::int64_t rows = 0;
      for (auto* const query : taken) {
        auto* const expected = slow.first(now);
        ASSERT_EQ(query, expected);
        for (auto const* other : slow.waiting()) {
          aged += other->priority > query->priority ? 1 : 0;
        }
        rows += query->ticket.rows_needed;
        slow.remove(query);
        queue.release(*query);
      }
      ASSERT_LE(rows, batching.most_rows);
      if (!taken.empty() && batching.together) {
        ASSERT_TRUE(slow.waiting().empty() ||
                    rows + slow.first(now)->ticket.rows_needed > batching.most_rows);
      } else {
        ASSERT_LE(taken.size(), 1U);
      }
    }
    ASSERT_EQ(queue.next_due(),
              slow.first_due() != nullptr ? slow.first_due()->deadline : Clock::time_point::max());
    ASSERT_EQ(queue.waiting(), slow.waiting().size());
    ASSERT_EQ(queue.empty(), slow.waiting().empty());
  }
  EXPECT_GT(displacements, 0);
  EXPECT_GT(aged, 0);
}

TEST(QueryQueue, no_more_are_displaced_than_there_is_room_to_tell) {
  QueryQueue queue(2, kAgeing);
  auto const push = [&](Query::Priority priority) {
    auto* const place = queue.reserve(priority);
    if (place != nullptr) {
      place->ticket.rows_needed = 1;
      place->priority = priority;
      queue.push(*place);
    }
    return place;
  };
  auto* const low = push(Query::Priority::low);
  auto* const normal = push(Query::Priority::normal);
  EXPECT_EQ(push(Query::Priority::low), nullptr);
  EXPECT_NE(push(Query::Priority::high), nullptr);
  EXPECT_NE(push(Query::Priority::high), nullptr);
  EXPECT_EQ(queue.waiting(), 2U);
  EXPECT_EQ(push(Query::Priority::high), nullptr);
  for (auto* const expected : {normal, low}) {
    auto* const told = queue.take_due(Clock::time_point::min());
    EXPECT_EQ(told, expected);
    queue.release(*told);
  }
  EXPECT_EQ(queue.take_due(Clock::time_point::min()), nullptr);
  for (int i = 0; i < 2; ++i) {
    auto* const taken = queue.take_foremost(Clock::now());
    ASSERT_NE(taken, nullptr);
    EXPECT_EQ(taken->priority, Query::Priority::high);
    queue.release(*taken);
  }
  EXPECT_EQ(queue.take_foremost(Clock::now()), nullptr);
}

TEST(QueryQueue, threads_lose_nothing) {
  constexpr int kThreads = 4;
  constexpr std::int64_t kEach = 5'000;
  QueryQueue queue(8, kAgeing);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (std::int64_t j = 0; j < kEach;) {
        auto const priority = static_cast<Query::Priority>((i * kEach + j) % 3);
        if (auto* const place = queue.reserve(priority)) {
          place->ticket.rows_needed = i * kEach + j++;
          place->priority = priority;
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
    auto* query = queue.take_foremost(at(kEach));
    if (query == nullptr || got % 2 == 0) {
      auto* const due = queue.take_due(at(kEach));
      if (due != nullptr && query != nullptr) {
        ++seen[static_cast<std::size_t>(due->ticket.rows_needed)];
        queue.release(*due);
        ++got;
      } else if (due != nullptr) {
        query = due;
      }
    }
    if (query != nullptr) {
      ++seen[static_cast<std::size_t>(query->ticket.rows_needed)];
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
