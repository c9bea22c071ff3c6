// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "serve/ticket.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::serve {

/// An entry of the queue of waiting queries: a query with its input values.
struct WaitingQuery {
  Ticket ticket = {};
  std::vector<std::byte> values = {};  ///< packed; the buffer is kept for later queries
  Query::Priority priority = Query::Priority::normal;
  Clock::time_point deadline = Clock::time_point::max();

  // Members that only QueryQueue uses.
  WaitingQuery* before = nullptr;
  WaitingQuery* after = nullptr;
  std::size_t heap_place = 0;
  bool is_displaced = false;
};

/// The rules that determine how many waiting queries are launched together, and when.
struct Batching {
  /// The maximum number of rows that are launched together, as Ticket::rows_needed counts them.
  std::int64_t most_rows;
  /// Whether queries are launched together. If false, each query is launched alone, as soon as a
  /// slot is idle.
  bool together = false;
  /// The time after which a batch is launched, counted from the arrival of its oldest query. The
  /// batch is launched earlier if there are `most_rows` rows, if one of the queries has high
  /// priority, if the queue is full, or if a deadline is near.
  std::chrono::nanoseconds delay{0};
  /// The time before a query's deadline at which the query is launched at the latest, but not
  /// before half of the time from its arrival to its deadline has passed.
  std::chrono::nanoseconds before_deadline{0};
};

/// The waiting queries, ordered by priority, and within one priority by arrival. A query that has
/// waited for `ageing` counts as having the next higher priority, and after twice that time the
/// priority above; among equal priorities the oldest query goes first. No query therefore waits for
/// ever while others are taken.
///
/// States of an entry: free; reserved or taken, and owned by the thread that reserved or took it;
/// waiting; displaced, which means removed from the waiting queries until the poller replies.
/// Ownership: entries are allocated once. Locking: a spin lock for a few instructions, plus the
/// steps of a heap for a query with a deadline; the owner of an entry copies values outside of the
/// lock. Memory ordering: the thread that takes a query sees everything that was written before
/// push(); empty() and next_due() are exact for entries that the calling thread pushed or took, and
/// otherwise hints.
class QueryQueue {
 public:
  QueryQueue(std::size_t capacity, std::chrono::nanoseconds ageing);
  QueryQueue(QueryQueue const&) = delete;
  QueryQueue& operator=(QueryQueue const&) = delete;

  /// Reserves an entry for a query of this priority, which the caller must pass to push() or
  /// release(). If the queue is full, displaces the newest query of the lowest priority, provided
  /// that its priority is lower than `priority`. Returns null if there is no entry.
  [[nodiscard]] WaitingQuery* reserve(Query::Priority priority) noexcept;
  /// Frees an entry of the queue that was reserved or taken.
  void release(WaitingQuery& place) noexcept;
  void push(WaitingQuery& query) noexcept;

  /// Returns the time at which the waiting queries must be launched if no others arrive, or the far
  /// future if none waits.
  [[nodiscard]] Clock::time_point ready_at(Batching const& batching) const noexcept;
  /// Removes and returns the foremost query; its entry must be released later. Returns null if no
  /// query waits.
  [[nodiscard]] WaitingQuery* take_foremost(Clock::time_point now) noexcept;
  /// Removes the foremost queries that are to be launched together, and appends them to the output;
  /// their entries must be released later. Returns their number; 0 if their batch is not due yet.
  std::size_t take(Batching const& batching,
                   Clock::time_point now,
                   std::vector<WaitingQuery*>& to) noexcept;
  /// Removes and returns a query that has been displaced, or whose deadline has passed. Returns
  /// null if there is none.
  [[nodiscard]] WaitingQuery* take_due(Clock::time_point now) noexcept;
  /// Returns the time from which take_due() will return a query: in the past if a query has been
  /// displaced, the far future if no waiting query has a deadline.
  [[nodiscard]] Clock::time_point next_due() const noexcept {
    return Clock::time_point(Clock::duration(next_due_.load()));
  }

  [[nodiscard]] bool empty() const noexcept { return waiting_.load() == 0; }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.load(); }

 private:
  struct Line {
    WaitingQuery* first = nullptr;
    WaitingQuery* last = nullptr;
  };

  // Functions that must be called with the lock held.
  [[nodiscard]] Clock::time_point time_of_launch(Batching const& batching) const noexcept;
  [[nodiscard]] WaitingQuery* foremost(Clock::time_point now) const noexcept;
  [[nodiscard]] bool displace_below(Query::Priority priority) noexcept;
  [[nodiscard]] Line& line_of(WaitingQuery const& query) noexcept;
  void unlink(WaitingQuery& query) noexcept;
  void insert_deadline(WaitingQuery& query) noexcept;
  void remove_deadline(WaitingQuery const& query) noexcept;
  /// Restores the heap order after a change of the entry at index `place`.
  void settle(std::size_t place) noexcept;
  void put(std::size_t place, WaitingQuery* query) noexcept;
  void note_next_due() noexcept;

  std::size_t capacity_;
  std::chrono::nanoseconds ageing_;
  mutable detail::SpinLock lock_;
  std::vector<WaitingQuery> places_;  ///< the entries, including some for displaced queries
  std::vector<WaitingQuery*> free_;
  std::size_t used_ = 0;               ///< entries neither free nor displaced
  std::array<Line, 3> lines_;          ///< the waiting queries of each priority, the lowest first
  WaitingQuery* displaced_ = nullptr;  ///< the displaced queries, linked by `after`
  std::vector<WaitingQuery*> deadlines_;  ///< a heap with the next deadline first
  std::int64_t rows_ = 0;                 ///< those that all waiting queries need together
  alignas(64) std::atomic<std::size_t> waiting_{0};
  std::atomic<Clock::rep> next_due_{Clock::duration::max().count()};
};

}  // namespace msstream::serve
