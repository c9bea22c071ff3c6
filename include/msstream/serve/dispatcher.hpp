// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/completion.hpp>
#include <msstream/serve/launch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace msstream::serve {

/// Brings queries to slots, slots to the device, and answers back.
///
///     admit ──┬── a slot is idle: filled ──┬── launch ── sweep: over? ── reply
///             └── the queue ── sweep ──────┘
///
/// Threads: admit() is any thread's, launch() that of the thread which has the slot, sweep() the
/// poller's, who alone takes from the queue. Ownership: a query's ticket is moved from its caller
/// to the queue or to a slot, and from there to the poller, who replies. Nobody holds a lock while
/// he copies values, launches or replies. Memory ordering: slots are handed over by their states,
/// queries by the queue's lock. Whoever has changed something that the poller must see rings its
/// bell, and the poller sleeps only if that has not been rung since before its last sweep.
template <Runtime R>
class Dispatcher {
 public:
  explicit Dispatcher(PoolState<R>& pool) : pool_(pool), launch_(pool), completion_(pool) {}
  Dispatcher(Dispatcher const&) = delete;
  Dispatcher& operator=(Dispatcher const&) = delete;

  /// Throws std::invalid_argument for a query that does not fit; the reply gets all else.
  void admit(Query const& query, Reply reply) {
    check(query);
    Ticket ticket{std::move(reply), query.rows, Clock::now()};
    auto& ledger = pool_.ledger;
    if (!ledger.begin()) {
      ledger.refuse(ticket, Refused::Reason::draining, "serve: refused, the pool is draining");
    } else if (pool_.replicas.sound() == 0) {
      ledger.refuse(ticket, Refused::Reason::no_replica_left, no_replica_left());
    } else if (query.deadline <= ticket.admitted_at) {
      ledger.admit();
      ledger.expire(ticket);
    } else if (auto* const slot = claim_for(query)) {
      ledger.admit();
      fill(*slot, query, std::move(ticket));
    } else if (auto* const place = pool_.queue.reserve()) {
      ledger.admit();
      enqueue(*place, query, std::move(ticket));
    } else {
      ledger.refuse(ticket,
                    Refused::Reason::queue_full,
                    "serve: refused, as many queries are waiting as queue_capacity allows");
    }
  }

  void launch(Slot<R>& slot) noexcept { launch_(slot); }

  /// Replies to what is over, and gives slots to what waits. Whether something is in flight.
  bool sweep() noexcept {
    pool_.ledger.scores.sweeps.add();
    bool is_in_flight = false;
    for (auto const& replica : pool_.replicas) {
      // As many as there were: callbacks may launch more.
      auto left = replica->slots().size();
      while (auto* const slot = replica->first_launched()) {
        if (left-- == 0 || !completion_.is_over(*slot)) {
          is_in_flight = true;
          break;
        }
        completion_.finish(*slot);
      }
    }
    for (auto const& replica : pool_.replicas) {
      if (!replica->is_sound()) [[unlikely]] {
        move_stranded(*replica);
      }
    }
    if (!pool_.queue.empty()) {
      serve_queue();
    }
    return is_in_flight;
  }
  /// When the queue needs the next sweep if nobody rings.
  [[nodiscard]] Clock::time_point next_sweep_at() const noexcept {
    auto const outlook = pool_.queue.outlook();
    // Without a slot there is no hurry: whoever gives one back sweeps.
    return std::min(outlook.next_deadline,
                    found_no_slot_ ? Clock::time_point::max() : ready_at(outlook));
  }

 private:
  using State = typename Slot<R>::State;

  void check(Query const& query) const {
    require(query.rows >= 1 && query.rows <= pool_.buckets.largest(),
            "serve: a query of ",
            query.rows,
            " rows; expected 1 to ",
            pool_.buckets.largest(),
            ", the largest bucket");
    pool_.layout->check(query);
  }
  [[nodiscard]] std::string no_replica_left() const noexcept {
    try {
      std::rethrow_exception(pool_.replicas.last_failure());
    } catch (std::exception const& error) {
      return text("serve: refused, no replica is left; the last failed with: ", error.what());
    } catch (...) {
      return "serve: refused, no replica is left";
    }
  }

  // Of who admits.

  [[nodiscard]] bool is_batching() const noexcept { return pool_.max_batch_delay.count() > 0; }
  [[nodiscard]] Slot<R>* claim_for(Query const& query) noexcept {
    bool const would_overtake = !pool_.queue.empty();
    return is_batching() || would_overtake
               ? nullptr
               : pool_.replicas.claim(expected_ns(pool_.buckets.holding(query.rows)));
  }
  [[nodiscard]] std::int64_t expected_ns(std::size_t bucket) const noexcept {
    return pool_.buckets.expected_ns(bucket);
  }
  void fill(Slot<R>& slot, Query const& query, Ticket ticket) noexcept {
    slot.place.bucket = pool_.buckets.holding(query.rows);
    slot.tickets.push_back(std::move(ticket));
    try {
      auto const rows = pool_.buckets.rows(slot.place.bucket);
      pool_.layout->pack(query, slot.staging.values(), rows, 0);
    } catch (...) {
      slot.failure = std::current_exception();
    }
    dispatch(slot);
  }
  void enqueue(WaitingQuery& place, Query const& query, Ticket ticket) noexcept {
    try {
      place.values.resize(pool_.layout->bytes(query.rows));
    } catch (...) {
      pool_.queue.release(place);
      pool_.ledger.fail(ticket, std::current_exception());
      return;
    }
    pool_.layout->pack(query, place.values.data(), query.rows, 0);
    place.ticket = std::move(ticket);
    place.priority = query.priority;
    place.deadline = query.deadline;
    pool_.ledger.scores.queued.add();
    pool_.queue.push(place);
    pool_.bell.ring();
  }

  /// Of who has the slot, which is filled.
  void dispatch(Slot<R>& slot) noexcept {
    if (auto* const bell = pool_.replicas.of(slot).launch_bell) {
      slot.become(State::staged);
      bell->ring();
    } else {
      launch_(slot);
    }
  }

  // Of the poller.

  void serve_queue() noexcept {
    auto const now = Clock::now();
    while (auto* const query = pool_.queue.take_expired(now)) {
      auto ticket = take_ticket(*query);
      pool_.queue.release(*query);
      pool_.ledger.expire(ticket);
    }
    if (pool_.replicas.sound() == 0) [[unlikely]] {
      give_up_waiting();
    }
    found_no_slot_ = false;
    while (!pool_.queue.empty() && ready_at(pool_.queue.outlook()) <= now) {
      auto* const slot = pool_.replicas.claim(expected_ns(0));
      if (slot == nullptr) {
        found_no_slot_ = true;
        return;
      }
      fill_from_queue(*slot);
    }
  }
  /// From when on what waits is to be launched, as soon as there is a slot.
  [[nodiscard]] Clock::time_point ready_at(QueryQueue::Outlook const& outlook) const noexcept {
    bool const may_grow =
        is_batching() && outlook.rows < pool_.buckets.largest() && !pool_.ledger.is_closed();
    if (outlook.rows == 0 || !may_grow) {
      return outlook.oldest_admitted_at;
    }
    return outlook.oldest_admitted_at + pool_.max_batch_delay;
  }
  void fill_from_queue(Slot<R>& slot) noexcept {
    auto rows_left = pool_.buckets.largest();
    while (auto* const query = pool_.queue.take(rows_left)) {
      rows_left -= query->ticket.rows;
      slot.tickets.push_back(take_ticket(*query));
      slot.waiting.push_back(query);
      if (!is_batching()) {
        break;
      }
    }
    slot.place.bucket = pool_.buckets.holding(pool_.buckets.largest() - rows_left);
    pool_.replicas.expect(slot, expected_ns(slot.place.bucket));
    dispatch(slot);
  }
  [[nodiscard]] static Ticket take_ticket(WaitingQuery& query) noexcept {
    return std::exchange(query.ticket, {});
  }
  void give_up_waiting() noexcept {
    auto const why =
        std::make_exception_ptr(Refused(Refused::Reason::no_replica_left, no_replica_left()));
    while (auto* const query = pool_.queue.take(pool_.buckets.largest())) {
      auto ticket = take_ticket(*query);
      pool_.queue.release(*query);
      pool_.ledger.fail(ticket, why);
    }
  }

  /// What was never launched runs elsewhere, before what waits: in a slot that is idle by now, or
  /// else is in flight, so that there will be another sweep.
  void move_stranded(Replica<R>& failed) noexcept {
    for (auto const& slot : failed.slots()) {
      if (!slot->is(State::stranded)) {
        continue;
      }
      auto* const target = pool_.replicas.claim(expected_ns(slot->place.bucket));
      if (target != nullptr) {
        move(*slot, *target);
        pool_.ledger.scores.moved.add();
        completion_.finish(*slot);
        dispatch(*target);
      } else if (pool_.replicas.sound() == 0) {
        completion_.finish(*slot);
      }
    }
  }
  void move(Slot<R>& from, Slot<R>& to) noexcept {
    to.place.bucket = from.place.bucket;
    to.tickets.swap(from.tickets);
    try {
      auto const bytes = pool_.layout->bytes(pool_.buckets.rows(from.place.bucket));
      std::memcpy(to.staging.values(), from.staging.values_to_read(), bytes);
    } catch (...) {
      to.failure = std::current_exception();
    }
  }

  PoolState<R>& pool_;
  Launch<R> launch_;
  Completion<R> completion_;
  bool found_no_slot_ = false;  ///< the poller's, of its last sweep
};

}  // namespace msstream::serve
