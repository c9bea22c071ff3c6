// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/serve/pool_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace msstream::serve {

/// Takes launched slots back, and replies to their queries. Used by the poller only.
template <Runtime R>
class Completion {
 public:
  explicit Completion(PoolState<R>& pool) : pool_(pool) {
    auto const most_queries = static_cast<std::size_t>(pool.buckets.largest());
    tickets_.reserve(most_queries);
    outcomes_.reserve(most_queries);
  }

  /// Returns whether the slot's launch is complete, which its answers show. Querying the device
  /// instead takes a driver call, which waits for the driver calls of launching threads; the device
  /// is therefore queried only if the launch takes long, or if the runtime requires it
  /// (must_be_asked). If the query fails, the slot and its replica fail.
  [[nodiscard]] bool is_over(Slot<R>& slot, Clock::time_point now) noexcept {
    bool const is_nothing = !slot.position && !slot.event;
    if (is_nothing || has_told(slot) || !works(Mechanism::serve_slot_reuse)) {
      return true;
    }
    if (now < slot.ask_at && !must_be_asked<R>) {
      return false;
    }
    try {
      return ask(slot, now);
    } catch (std::bad_alloc const&) {
      return false;  // queried again when there is memory
    } catch (...) {
      auto const failure = std::current_exception();
      pool_.replicas.fail(pool_.replicas.of(slot), failure);
      slot.failure = slot.failure == nullptr ? failure : slot.failure;
      return true;
    }
  }

  /// Replies to the queries of a slot that is complete, or that no replica can launch. The slot
  /// becomes idle before the first reply is given, so the receiver of the reply can use it at once.
  void finish(Slot<R>& slot) noexcept {
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

 private:
  struct Interval {
    Clock::time_point begin;
    Clock::time_point end;
  };

  [[nodiscard]] static bool has_told(Slot<R> const& slot) noexcept {
    return !must_be_asked<R> && slot.position && slot.staging.have_arrived();
  }
  bool ask(Slot<R>& slot, Clock::time_point now) {
    if (!slot.event) {
      slot.event.take(*pool_.context, *slot.position);
      if (!slot.event) {
        return true;
      }
    }
    slot.ask_at = now + kOverdue;
    return slot.event.query(pool_.context);
  }
  /// Returns the time when the replica began with the launch: when it was launched, or when the
  /// launch before it was complete, whichever is later.
  [[nodiscard]] Clock::time_point begin_of(Slot<R> const& slot) const noexcept {
    return std::max(slot.launched_at, pool_.replicas.of(slot).over_at);
  }
  /// Notes the launch's time on the device, if it used the newest model.
  void note_time(Slot<R> const& slot, Interval const& on_device) noexcept {
    auto const version = slot.version_number;
    if (version > newest_version_) {
      newest_version_ = version;
      pool_.buckets.forget();
    }
    if (version == newest_version_) {
      pool_.buckets.note(slot.place.bucket, on_device.end - on_device.begin);
    }
  }

  void make_outcomes(Slot<R> const& slot,
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
  [[nodiscard]] Outcome outcome(Slot<R> const& slot,
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
  void reply(Ticket& ticket, Outcome outcome) noexcept {
    if (outcome.has_answer()) {
      pool_.ledger.answer(ticket, outcome.take_answer());
    } else {
      pool_.ledger.fail(ticket, outcome.error());
    }
  }

  PoolState<R>& pool_;
  std::uint64_t newest_version_ = 0;
  std::vector<Ticket> tickets_;
  std::vector<Outcome> outcomes_;
};

}  // namespace msstream::serve
