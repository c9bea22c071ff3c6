// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/completion.hpp"
#include "serve/launch.hpp"

#include <cstddef>
#include <cstdint>

namespace msstream::serve {

/// Moves queries to slots, launches the slots on the device, and returns the answers to the
/// callers. A query fills an idle slot, or waits in the queue for a slot:
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

  /// Accepts a query. Throws std::invalid_argument for a query that does not fit the model's
  /// inputs; all other outcomes, such as a full queue, go to the reply.
  void admit(Query const& query, Reply reply);

  void launch(Slot& slot) noexcept { launch_(slot); }

  /// Replies to the queries of all complete launches, and then launches waiting queries in an idle
  /// slot. Returns whether a launch is in flight.
  bool sweep(bool was_rung) noexcept;
  /// Returns the time at which the poller must call sweep() again if its bell is not rung before.
  [[nodiscard]] Clock::time_point next_sweep_at() const noexcept;

 private:
  using State = Slot::State;

  /// The result of trying to launch waiting queries.
  enum class Served : std::uint8_t { launched, not_yet, no_slot };

  /// Returns the number of rows that the query takes up in a bucket. Throws std::invalid_argument
  /// if the query does not fit the model's inputs and the largest bucket.
  [[nodiscard]] std::int64_t checked_rows(Query const& query) const;
  [[nodiscard]] bool is_batching() const noexcept { return pool_.max_batch_delay.count() > 0; }
  [[nodiscard]] std::int64_t expected_ns(std::size_t bucket) const noexcept;

  // Functions that threads call when they admit a query.

  [[nodiscard]] Slot* claim_for(std::int64_t rows_needed) noexcept;
  [[nodiscard]] WaitingQuery* place_for(Query const& query, Clock::time_point now) noexcept;
  void fill(Slot& slot, Query const& query, Ticket ticket) noexcept;
  void enqueue(WaitingQuery& place, Query const& query, Ticket ticket) noexcept;

  // Functions of any thread that owns a slot, or claims one.

  /// Launches the foremost waiting queries, if their batch is due and a slot is idle.
  Served serve_queue(Clock::time_point now) noexcept;
  [[nodiscard]] Batching batching() const noexcept;
  [[nodiscard]] static Ticket take_ticket(WaitingQuery& query) noexcept;
  /// Launches a filled slot, or hands it over to the launch thread of its replica.
  void dispatch(Slot& slot) noexcept;

  // Functions that only the poller thread calls.

  [[nodiscard]] static bool is_past(Clock::time_point time) noexcept;
  void look_after_queue() noexcept;
  void tell_those_due(Clock::time_point now) noexcept;
  void give_up_waiting() noexcept;

  /// Moves the queries of stranded slots, whose launch was never issued, to idle slots of other
  /// replicas. This happens before waiting queries are served. If no slot is idle, one is in
  /// flight, so another sweep will follow. Queries whose launch has failed twice get the failure as
  /// their reply instead, because they may be its cause and must not make every replica fail.
  void move_stranded(Replica& failed) noexcept;
  void move(Slot& from, Slot& to) noexcept;

  PoolState& pool_;
  Launch launch_;
  Completion completion_;

  // Members used only by the poller.
  Clock::time_point look_at_ = Clock::time_point::max();  ///< when to look at the queue again
};

}  // namespace msstream::serve
