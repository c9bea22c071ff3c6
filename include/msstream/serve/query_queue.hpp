// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/spin_lock.hpp>
#include <msstream/serve/ticket.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::serve {

/// A query with its values, in a place of the queue.
struct WaitingQuery {
  Ticket ticket = {};
  std::vector<std::byte> values = {};  ///< packed; keeps its memory for the next one
  Priority priority = Priority::normal;
  Clock::time_point deadline = Clock::time_point::max();

  // The queue's own.
  WaitingQuery* before = nullptr;
  WaitingQuery* after = nullptr;
  std::size_t heap_place = 0;
};

/// Queries that wait: by priority, those of one priority in the order in which they came.
///
/// States of a place: free; reserved or taken, its holder's alone; waiting. Ownership: places are
/// made once. Locking: a spin lock for a few instructions, and the steps of a heap for a query with
/// a deadline; values are copied outside of it, by the place's holder. Memory ordering: what the
/// holder wrote before push() is seen by whoever takes the query; empty() is exact for what the
/// calling thread pushed or took, and else a hint.
class QueryQueue {
 public:
  explicit QueryQueue(std::size_t capacity);
  QueryQueue(QueryQueue const&) = delete;
  QueryQueue& operator=(QueryQueue const&) = delete;

  /// A place to write a query into, for push() or release(); null: the queue is full.
  [[nodiscard]] WaitingQuery* reserve() noexcept;
  /// Of a place reserved or taken.
  void release(WaitingQuery& place) noexcept;
  void push(WaitingQuery& query) noexcept;

  /// The foremost query, for release() later; null when there is none, or it has more rows.
  [[nodiscard]] WaitingQuery* take(std::int64_t most_rows) noexcept;
  /// One whose deadline has passed; null: there is none.
  [[nodiscard]] WaitingQuery* take_expired(Clock::time_point now) noexcept;

  [[nodiscard]] bool empty() const noexcept { return waiting_.load() == 0; }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.load(); }
  struct Outlook {
    std::int64_t rows = 0;
    /// The far future, where nothing waits, or nothing with a deadline.
    Clock::time_point oldest_admitted_at = Clock::time_point::max();
    Clock::time_point next_deadline = Clock::time_point::max();
  };
  [[nodiscard]] Outlook outlook() const noexcept;

 private:
  struct Line {
    WaitingQuery* first = nullptr;
    WaitingQuery* last = nullptr;
  };

  // Under the lock.
  [[nodiscard]] Line& line_of(WaitingQuery const& query) noexcept;
  void unlink(WaitingQuery& query) noexcept;
  void insert_deadline(WaitingQuery& query) noexcept;
  void remove_deadline(WaitingQuery const& query) noexcept;
  /// Moves what is at the place to where it belongs.
  void settle(std::size_t place) noexcept;
  void put(std::size_t place, WaitingQuery* query) noexcept;

  mutable SpinLock lock_;
  std::vector<WaitingQuery> places_;
  std::vector<WaitingQuery*> free_;
  std::array<Line, 3> lines_;             ///< by priority, the highest first
  std::vector<WaitingQuery*> deadlines_;  ///< a heap, the next one first
  std::int64_t rows_ = 0;
  std::atomic<std::size_t> waiting_{0};
};

}  // namespace msstream::serve
