// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/spin_lock.hpp>
#include <msstream/serve/ticket.hpp>

#include <array>
#include <atomic>
#include <chrono>
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
  bool is_displaced = false;
};

/// How many of the queries that wait are launched at once, and when.
struct Batching {
  /// What is launched at once has no more.
  std::int64_t most_rows;
  /// Off: each alone, as soon as there is a slot.
  bool together = false;
  /// On: when the oldest has waited so long; before, when there are `most_rows`, one of them has
  /// high priority, the queue is full, or a deadline is near.
  std::chrono::nanoseconds delay{0};
  /// How long before its deadline a query is launched at the latest; but not before half of its
  /// time is over.
  std::chrono::nanoseconds before_deadline{0};
};

/// Queries that wait: by priority, those of one priority in the order in which they came. What has
/// waited for `ageing` goes as if it had the next higher priority, for twice that, the one after
/// that, and among equals the oldest goes first: so nothing waits for ever while others are taken.
///
/// States of a place: free; reserved or taken, its holder's alone; waiting; displaced, when it is
/// out of the line and waits to be told. Ownership: places are made once. Locking: a spin lock for
/// a few instructions, and the steps of a heap for a query with a deadline; values are copied
/// outside of it, by the place's holder. Memory ordering: what the holder wrote before push() is
/// seen by whoever takes the query; empty() and next_due() are exact for what the calling thread
/// pushed or took, and else hints.
class QueryQueue {
 public:
  QueryQueue(std::size_t capacity, std::chrono::nanoseconds ageing);
  QueryQueue(QueryQueue const&) = delete;
  QueryQueue& operator=(QueryQueue const&) = delete;

  /// A place to write a query of this priority into, for push() or release(). In a full queue that
  /// of the newest query of the lowest priority, if that is a lower one; null: there is none.
  [[nodiscard]] WaitingQuery* reserve(Priority priority) noexcept;
  /// Of a place reserved or taken.
  void release(WaitingQuery& place) noexcept;
  void push(WaitingQuery& query) noexcept;

  /// When queries that wait now are to be launched if no others come; the far future: none waits.
  [[nodiscard]] Clock::time_point ready_at(Batching const& batching) const noexcept;
  /// The foremost query, for release() later; null: none waits.
  [[nodiscard]] WaitingQuery* take_foremost(Clock::time_point now) noexcept;
  /// Appends the foremost queries that are to be launched at once, for release() later. How many:
  /// 0 when it is not yet time.
  std::size_t take(Batching const& batching,
                   Clock::time_point now,
                   std::vector<WaitingQuery*>& to) noexcept;
  /// One that has been displaced, or whose deadline has passed; null: there is none.
  [[nodiscard]] WaitingQuery* take_due(Clock::time_point now) noexcept;
  /// When take_due() has one: a time in the past where one is displaced, the far future where there
  /// is no deadline.
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

  // Under the lock.
  [[nodiscard]] Clock::time_point time_of_launch(Batching const& batching) const noexcept;
  [[nodiscard]] WaitingQuery* foremost(Clock::time_point now) const noexcept;
  [[nodiscard]] bool displace_below(Priority priority) noexcept;
  [[nodiscard]] Line& line_of(WaitingQuery const& query) noexcept;
  void unlink(WaitingQuery& query) noexcept;
  void insert_deadline(WaitingQuery& query) noexcept;
  void remove_deadline(WaitingQuery const& query) noexcept;
  /// Moves what is at the place to where it belongs.
  void settle(std::size_t place) noexcept;
  void put(std::size_t place, WaitingQuery* query) noexcept;
  void note_next_due() noexcept;

  std::size_t capacity_;
  std::chrono::nanoseconds ageing_;
  mutable SpinLock lock_;
  std::vector<WaitingQuery> places_;  ///< and some for those displaced
  std::vector<WaitingQuery*> free_;
  std::size_t used_ = 0;                  ///< places that are neither free nor of those displaced
  std::array<Line, 3> lines_;             ///< by priority, the lowest first
  WaitingQuery* displaced_ = nullptr;     ///< linked by `after`
  std::vector<WaitingQuery*> deadlines_;  ///< a heap, the next one first
  std::int64_t rows_ = 0;
  alignas(64) std::atomic<std::size_t> waiting_{0};
  std::atomic<Clock::rep> next_due_{Clock::duration::max().count()};
};

}  // namespace msstream::serve
