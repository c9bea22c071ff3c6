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

/// An entry of the queue: a query with its values.
struct WaitingQuery {
  Ticket ticket = {};
  std::vector<std::byte> values = {};  ///< packed; the memory is kept for the next query
  Query::Priority priority = Query::Priority::normal;
  Clock::time_point deadline = Clock::time_point::max();

  // Members used only by QueryQueue.
  WaitingQuery* before = nullptr;
  WaitingQuery* after = nullptr;
  std::size_t heap_place = 0;
  bool is_displaced = false;
};

/// The rules for how many waiting queries are launched together, and when.
struct Batching {
  /// The maximum number of rows that are launched together.
  std::int64_t most_rows;
  /// Whether queries are launched together. If false, each is launched alone, as soon as a slot is
  /// idle.
  bool together = false;
  /// The waiting time of the oldest query after which a batch is launched. It is launched earlier
  /// if there are `most_rows`, one of the queries has high priority, the queue is full, or a
  /// deadline is near.
  std::chrono::nanoseconds delay{0};
  /// The time before its deadline at which a query is launched at the latest, but not before half
  /// of its time has passed.
  std::chrono::nanoseconds before_deadline{0};
};

/// The waiting queries, ordered by priority, and within one priority by arrival. A query that has
/// waited for `ageing` is treated as having the next higher priority, after twice that time the one
/// after that, and among equal priorities the oldest goes first. No query therefore waits for ever
/// while others are taken.
///
/// States of an entry: free; reserved or taken, owned by its holder; waiting; displaced, when it is
/// out of the line and its query waits for the reply. Ownership: entries are allocated once.
/// Locking: a spin lock for a few instructions, plus the steps of a heap for a query with a
/// deadline; the entry's holder copies values outside of the lock. Memory ordering: the thread that
/// takes a query sees everything that its holder wrote before push(); empty() and next_due() are
/// exact for entries that the calling thread pushed or took, and otherwise hints.
class QueryQueue {
 public:
  QueryQueue(std::size_t capacity, std::chrono::nanoseconds ageing);
  QueryQueue(QueryQueue const&) = delete;
  QueryQueue& operator=(QueryQueue const&) = delete;

  /// Reserves an entry for a query of this priority, to be passed to push() or release(). If the
  /// queue is full, displaces the newest query of the lowest priority, provided that its priority
  /// is lower. Returns null if there is no entry.
  [[nodiscard]] WaitingQuery* reserve(Query::Priority priority) noexcept;
  /// Frees an entry that was reserved or taken.
  void release(WaitingQuery& place) noexcept;
  void push(WaitingQuery& query) noexcept;

  /// Returns the time when queries that wait now are to be launched if no others arrive, or the far
  /// future if none waits.
  [[nodiscard]] Clock::time_point ready_at(Batching const& batching) const noexcept;
  /// Takes the foremost query, to be released later. Returns null if none waits.
  [[nodiscard]] WaitingQuery* take_foremost(Clock::time_point now) noexcept;
  /// Appends the foremost queries that are to be launched together, to be released later, and
  /// returns their number; 0 if it is not yet time to launch.
  std::size_t take(Batching const& batching,
                   Clock::time_point now,
                   std::vector<WaitingQuery*>& to) noexcept;
  /// Takes a query that has been displaced, or whose deadline has passed. Returns null if there is
  /// none.
  [[nodiscard]] WaitingQuery* take_due(Clock::time_point now) noexcept;
  /// Returns the time when take_due() will return a query: a time in the past if a query is
  /// displaced, the far future if there is no deadline.
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

  // The functions below require the lock.
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
  std::size_t used_ = 0;               ///< entries that are neither free nor of displaced queries
  std::array<Line, 3> lines_;          ///< the waiting queries of each priority, the lowest first
  WaitingQuery* displaced_ = nullptr;  ///< the displaced queries, linked by `after`
  std::vector<WaitingQuery*> deadlines_;  ///< a heap with the next deadline first
  std::int64_t rows_ = 0;
  alignas(64) std::atomic<std::size_t> waiting_{0};
  std::atomic<Clock::rep> next_due_{Clock::duration::max().count()};
};

}  // namespace msstream::serve
