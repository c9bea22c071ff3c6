// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/completion.hpp"
#include "serve/launch.hpp"

#include <cstddef>
#include <cstdint>

namespace msstream::serve {

/// Moves queries to slots, slots to the device, and answers back to the callers.
///
///     admit ──┬── a slot is idle: filled ──┬── launch ── sweep: over? ── reply
///             └── the queue ───────────────┘
///
/// Threads: any thread calls admit(), the thread that has a slot calls launch(), and only the
/// poller calls sweep(), which alone gives back slots that were launched. A thread that finds an
/// idle slot and waiting queries serves the foremost ones: an admitting thread once for each query,
/// and the poller once in each sweep, after its replies.
///
/// Ownership: a query's ticket is moved from its caller to the queue or to a slot, and from there
/// to the poller, which replies. No lock is held while values are copied or replies are given; a
/// thread that launches holds a lock of its replica only, against other launches there.
///
/// Memory ordering: slots are handed over by their states, queries by the queue's lock. A thread
/// rings the poller's bell after each change that the poller must see: when it has queued a query,
/// handed over a slot, or given one back unused. The poller looks at the queue if the bell was
/// rung, if it has freed a slot, or if a waiting query is due; it sleeps only if the bell has not
/// been rung since before its last sweep.
class Dispatcher {
 public:
  explicit Dispatcher(PoolState& pool) : pool_(pool), launch_(pool), completion_(pool) {}
  Dispatcher(Dispatcher const&) = delete;
  Dispatcher& operator=(Dispatcher const&) = delete;

  /// Accepts a query. Throws std::invalid_argument for a query that does not fit; all other
  /// outcomes go to the reply.
  void admit(Query const& query, Reply reply);

  void launch(Slot& slot) noexcept { launch_(slot); }

  /// Replies to the queries of launches that are complete, then assigns a slot to waiting queries.
  /// Returns whether a launch is in flight.
  bool sweep(bool was_rung) noexcept;
  /// Returns the time of the next sweep if the bell is not rung before.
  [[nodiscard]] Clock::time_point next_sweep_at() const noexcept;

 private:
  using State = Slot::State;

  /// The result of trying to launch waiting queries.
  enum class Served : std::uint8_t { launched, not_yet, no_slot };

  void check(Query const& query) const;
  [[nodiscard]] bool is_batching() const noexcept { return pool_.max_batch_delay.count() > 0; }
  [[nodiscard]] std::int64_t expected_ns(std::size_t bucket) const noexcept;

  // Functions of the admitting threads.

  [[nodiscard]] Slot* claim_for(Query const& query) noexcept;
  [[nodiscard]] WaitingQuery* place_for(Query const& query, Clock::time_point now) noexcept;
  void fill(Slot& slot, Query const& query, Ticket ticket) noexcept;
  void enqueue(WaitingQuery& place, Query const& query, Ticket ticket) noexcept;

  // Functions of any thread that has a slot, or finds one.

  /// Launches the foremost waiting queries, if it is time and a slot is idle.
  Served serve_queue(Clock::time_point now) noexcept;
  [[nodiscard]] Batching batching() const noexcept;
  [[nodiscard]] static Ticket take_ticket(WaitingQuery& query) noexcept;
  /// Launches a filled slot, or hands it to its launch thread.
  void dispatch(Slot& slot) noexcept;

  // Functions of the poller.

  [[nodiscard]] static bool is_past(Clock::time_point time) noexcept;
  void look_after_queue() noexcept;
  void tell_those_due(Clock::time_point now) noexcept;
  void give_up_waiting() noexcept;

  /// Moves queries that were never launched to other replicas, before waiting queries are served:
  /// to a slot that is idle now; if there is none, a slot is in flight, so another sweep will
  /// follow. Queries whose launch has failed twice get the failure, since they may be its cause,
  /// and must not reach every replica.
  void move_stranded(Replica& failed) noexcept;
  void move(Slot& from, Slot& to) noexcept;

  PoolState& pool_;
  Launch launch_;
  Completion completion_;

  // Members used only by the poller.
  Clock::time_point look_at_ = Clock::time_point::max();  ///< when to look at the queue next
};

}  // namespace msstream::serve
