// SPDX-License-Identifier: Apache-2.0
#include "serve/completion.hpp"

#include "base/mechanism.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <utility>

namespace msstream::serve {

bool Completion::is_over(Slot& slot, Clock::time_point now) noexcept {
  bool const is_nothing = !slot.position && !slot.event;
  if (is_nothing || has_told(slot) || !detail::works(detail::Mechanism::serve_slot_reuse)) {
    return true;
  }
  if (now < slot.ask_at && !pool_.must_be_asked) {
    return false;
  }
  try {
    return ask(slot, now);
  } catch (std::bad_alloc const&) {
    return false;  // is queried again in the next sweep, when there may be memory
  } catch (...) {
    auto const failure = std::current_exception();
    pool_.replicas.fail(pool_.replicas.of(slot), failure);
    slot.failure = slot.failure == nullptr ? failure : slot.failure;
    return true;
  }
}

void Completion::finish(Slot& slot) noexcept {
  Interval const on_device{begin_of(slot), Clock::now()};
  auto& replica = pool_.replicas.of(slot);
  replica.over_at = on_device.end;
  auto const failure = std::exchange(slot.failure, nullptr);
  slot.failed_launches = 0;
  if (failure == nullptr) {
    note_time(slot, on_device);
  }
  make_outcomes(slot, failure, on_device);
  tickets_.swap(slot.tickets);
  slot.position.reset();
  slot.event.reset();
  if (auto* const version = std::exchange(slot.version, nullptr)) {
    pool_.versions.release(*version);
  }
  pool_.replicas.give_back(slot);
  for (std::size_t i = 0; i < tickets_.size(); ++i) {
    reply(tickets_[i], std::move(outcomes_[i]));
  }
  tickets_.clear();
  outcomes_.clear();
}

bool Completion::has_told(Slot const& slot) const noexcept {
  return !pool_.must_be_asked && slot.position && slot.staging.have_arrived();
}

bool Completion::ask(Slot& slot, Clock::time_point now) {
  if (!slot.event) {
    slot.event.take(*pool_.context, *slot.position);
    if (!slot.event) {
      return true;
    }
  }
  slot.ask_at = now + kOverdue;
  return slot.event.query(pool_.context);
}

Clock::time_point Completion::begin_of(Slot const& slot) const noexcept {
  return std::max(slot.launched_at, pool_.replicas.of(slot).over_at);
}

void Completion::note_time(Slot const& slot, Interval const& on_device) noexcept {
  auto const version = slot.version_number;
  if (version > newest_version_) {
    newest_version_ = version;
    pool_.buckets.forget();
  }
  if (version == newest_version_) {
    pool_.buckets.note(slot.place.bucket, on_device.end - on_device.begin);
  }
}

void Completion::make_outcomes(Slot const& slot,
                               std::exception_ptr const& failure,
                               Interval const& on_device) noexcept {
  std::size_t begin = 0;
  for (auto const& ticket : slot.tickets) {
    auto const count = static_cast<std::size_t>(ticket.rows * pool_.outputs_per_row);
    outcomes_.push_back(failure != nullptr ? Outcome(failure)
                                           : outcome(slot, ticket, begin, count, on_device));
    begin += count;
  }
}

Outcome Completion::outcome(Slot const& slot,
                            Ticket const& ticket,
                            std::size_t begin,
                            std::size_t count,
                            Interval const& on_device) noexcept {
  try {
    auto const values = slot.staging.answers().subspan(begin, count);
    return Outcome(Answer{.values = {values.begin(), values.end()},
                          .version = slot.version_number,
                          .replica = static_cast<int>(slot.place.replica),
                          .queued = on_device.begin - ticket.admitted_at,
                          .on_device = on_device.end - on_device.begin});
  } catch (...) {
    return Outcome(std::current_exception());
  }
}

void Completion::reply(Ticket& ticket, Outcome outcome) noexcept {
  if (outcome.has_answer()) {
    pool_.ledger.answer(ticket, outcome.take_answer());
  } else {
    pool_.ledger.fail(ticket, outcome.error());
  }
}

}  // namespace msstream::serve
