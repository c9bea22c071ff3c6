// SPDX-License-Identifier: Apache-2.0
#include "serve/dispatcher.hpp"

#include <msstream/base/detail/require.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

namespace msstream::serve {

void Dispatcher::admit(Query const& query, Reply reply) {
  auto const rows_needed = checked_rows(query);
  Ticket ticket{std::move(reply), query.rows, rows_needed, Clock::now()};
  auto& ledger = pool_.ledger;
  if (!ledger.begin()) {
    ledger.turn_away(ticket);
  } else if (pool_.replicas.sound() == 0) {
    ledger.refuse(ticket, pool_.replicas.none_left());
  } else if (query.deadline <= ticket.admitted_at) {
    ledger.admit();
    ledger.expire(ticket);
  } else if (auto* const slot = claim_for(rows_needed)) {
    ledger.admit();
    fill(*slot, query, std::move(ticket));
  } else if (auto* const place = place_for(query, ticket.admitted_at)) {
    ledger.admit();
    enqueue(*place, query, std::move(ticket));
  } else {
    ledger.refuse(ticket, Refusals::all().queue_full);
  }
}

bool Dispatcher::sweep(bool was_rung) noexcept {
  pool_.ledger.scores.sweeps.add();
  bool is_in_flight = false;
  bool has_freed = false;
  auto now = Clock::now();
  for (auto const& replica : pool_.replicas) {
    // Finishes at most as many slots as the replica has, because callbacks may launch slots again.
    auto left = replica->slots().size();
    while (auto* const slot = replica->first(State::launched)) {
      if (left-- == 0 || !completion_.is_over(*slot, now)) {
        is_in_flight = true;
        break;
      }
      completion_.finish(*slot);
      has_freed = true;
      now = Clock::now();  // the time has passed, because a callback may take long
    }
  }
  for (auto const& replica : pool_.replicas) {
    if (!replica->is_sound()) [[unlikely]] {
      move_stranded(*replica);
    }
  }
  if (was_rung || has_freed || is_past(look_at_) || is_past(pool_.queue.next_due())) {
    look_after_queue();
  }
  return is_in_flight;
}

Clock::time_point Dispatcher::next_sweep_at() const noexcept {
  return std::min(look_at_, pool_.queue.next_due());
}

std::int64_t Dispatcher::checked_rows(Query const& query) const {
  require(query.rows >= 1 && query.rows <= pool_.buckets.largest(),
          "serve: a query of {} rows; expected 1 to {}, the largest bucket",
          query.rows,
          pool_.buckets.largest());
  pool_.layout->check(query);
  return pool_.layout->rows_needed(query, pool_.buckets.largest());
}

std::int64_t Dispatcher::expected_ns(std::size_t bucket) const noexcept {
  return pool_.buckets.expected_ns(bucket);
}

Slot* Dispatcher::claim_for(std::int64_t rows_needed) noexcept {
  bool const would_overtake = !pool_.queue.empty();
  return is_batching() || would_overtake
             ? nullptr
             : pool_.replicas.claim(expected_ns(pool_.buckets.holding(rows_needed)));
}

WaitingQuery* Dispatcher::place_for(Query const& query, Clock::time_point now) noexcept {
  auto* const place = pool_.queue.reserve(query.priority);
  bool const may_be_room = place == nullptr && serve_queue(now) == Served::launched;
  return may_be_room ? pool_.queue.reserve(query.priority) : place;
}

void Dispatcher::fill(Slot& slot, Query const& query, Ticket ticket) noexcept {
  slot.place.bucket = pool_.buckets.holding(ticket.rows_needed);
  slot.tickets.push_back(std::move(ticket));
  try {
    auto const rows = pool_.buckets.rows(slot.place.bucket);
    pool_.layout->pack_alone(query, slot.staging.values(rows, query.rows), rows);
  } catch (...) {
    slot.failure = std::current_exception();
  }
  dispatch(slot);
}

void Dispatcher::enqueue(WaitingQuery& place, Query const& query, Ticket ticket) noexcept {
  try {
    place.values.resize(pool_.layout->bytes(ticket.rows_needed));
  } catch (...) {
    pool_.queue.release(place);
    pool_.ledger.fail(ticket, std::current_exception());
    return;
  }
  pool_.layout->pack(query, place.values.data(), ticket.rows_needed, 0);
  auto const now = ticket.admitted_at;
  place.ticket = std::move(ticket);
  place.priority = query.priority;
  place.deadline = query.deadline;
  pool_.ledger.scores.queued.add();
  pool_.queue.push(place);
  static_cast<void>(serve_queue(now));
  pool_.bell.ring();
}

Dispatcher::Served Dispatcher::serve_queue(Clock::time_point now) noexcept {
  auto const batching = this->batching();
  if (pool_.queue.empty() || pool_.queue.next_due() <= now ||
      (batching.together && pool_.queue.ready_at(batching) > now)) {
    return Served::not_yet;  // due queries must get their replies, and not be run
  }
  auto* const slot = pool_.replicas.claim(expected_ns(0));
  if (slot == nullptr) {
    return Served::no_slot;
  }
  // Another thread has taken all waiting queries, so the claimed slot is given back.
  if (pool_.queue.take(batching, now, slot->waiting) == 0) {
    pool_.replicas.give_back(*slot);
    pool_.bell.ring();
    return Served::not_yet;
  }
  std::int64_t rows = 0;
  for (auto* const query : slot->waiting) {
    rows += query->ticket.rows_needed;
    slot->tickets.push_back(take_ticket(*query));
  }
  slot->place.bucket = pool_.buckets.holding(rows);
  pool_.replicas.expect(*slot, expected_ns(slot->place.bucket));
  dispatch(*slot);
  return Served::launched;
}

Batching Dispatcher::batching() const noexcept {
  constexpr std::chrono::milliseconds kToWakeUp{1};
  auto const largest = pool_.buckets.count() - 1;
  return {.most_rows = pool_.buckets.largest(),
          .together = is_batching(),
          .delay = pool_.ledger.is_closed() ? std::chrono::nanoseconds(0) : pool_.max_batch_delay,
          .before_deadline = std::max<std::chrono::nanoseconds>(
              kToWakeUp, std::chrono::nanoseconds(expected_ns(largest)))};
}

Ticket Dispatcher::take_ticket(WaitingQuery& query) noexcept {
  return std::exchange(query.ticket, {});
}

void Dispatcher::dispatch(Slot& slot) noexcept {
  auto& replica = pool_.replicas.of(slot);
  if (auto* const bell = replica.launch_bell) {
    replica.hand_over(slot, State::staged);
    bell->ring();
  } else {
    launch_(slot);
  }
}

bool Dispatcher::is_past(Clock::time_point time) noexcept {
  return time != Clock::time_point::max() && time <= Clock::now();
}

void Dispatcher::look_after_queue() noexcept {
  auto const now = Clock::now();
  if (pool_.queue.next_due() <= now) {
    tell_those_due(now);
  }
  if (pool_.replicas.sound() == 0) [[unlikely]] {
    give_up_waiting();
  }
  switch (serve_queue(now)) {
    case Served::launched:
      // Looks at the queue again in the next sweep, because more queries may be waiting.
      look_at_ = Clock::time_point::min();
      break;
    case Served::not_yet:
      look_at_ = is_batching() ? pool_.queue.ready_at(batching()) : Clock::time_point::max();
      break;
    case Served::no_slot:
      look_at_ = Clock::time_point::max();  // a freed slot makes the poller look at the queue
      break;
  }
}

void Dispatcher::tell_those_due(Clock::time_point now) noexcept {
  while (auto* const query = pool_.queue.take_due(now)) {
    auto ticket = take_ticket(*query);
    bool const is_displaced = query->is_displaced;
    pool_.queue.release(*query);
    if (is_displaced) {
      pool_.ledger.displace(ticket);
    } else {
      pool_.ledger.expire(ticket);
    }
  }
}

void Dispatcher::give_up_waiting() noexcept {
  auto const why = pool_.replicas.none_left();
  while (auto* const query = pool_.queue.take_foremost(Clock::now())) {
    auto ticket = take_ticket(*query);
    pool_.queue.release(*query);
    pool_.ledger.fail(ticket, why);
  }
}

void Dispatcher::move_stranded(Replica& failed) noexcept {
  constexpr int kMostFailedLaunches = 2;
  for (auto const& slot : failed.slots()) {
    if (!slot->is(State::stranded)) {
      continue;
    }
    if (slot->failed_launches == kMostFailedLaunches) {
      completion_.finish(*slot);
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

void Dispatcher::move(Slot& from, Slot& to) noexcept {
  to.place.bucket = from.place.bucket;
  to.failed_launches = from.failed_launches;
  to.tickets.swap(from.tickets);
  try {
    auto const rows = pool_.buckets.rows(from.place.bucket);
    std::memcpy(
        to.staging.values(rows, rows), from.staging.values_to_read(), pool_.layout->bytes(rows));
  } catch (...) {
    to.failure = std::current_exception();
  }
}

}  // namespace msstream::serve
