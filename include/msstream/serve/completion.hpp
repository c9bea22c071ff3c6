// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/pool_state.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>
#include <utility>
#include <vector>

namespace msstream::serve {

/// Takes launched slots back, and replies to their queries. The poller's.
template <Runtime R>
class Completion {
 public:
  explicit Completion(PoolState<R>& pool) : pool_(pool) {
    auto const most_queries = static_cast<std::size_t>(pool.buckets.largest());
    tickets_.reserve(most_queries);
    outcomes_.reserve(most_queries);
  }

  /// Whether what was launched is over. A failure is the replica's, too.
  [[nodiscard]] bool is_over(Slot<R>& slot) noexcept {
    if (!slot.event) {
      return true;
    }
    try {
      return slot.event->query();
    } catch (...) {
      auto const failure = std::current_exception();
      pool_.replicas.fail(pool_.replicas.of(slot), failure);
      slot.failure = slot.failure == nullptr ? failure : slot.failure;
      return true;
    }
  }

  /// For a slot that is over, or that nobody can launch. The slot is idle before the first reply is
  /// given, so that whoever gets that finds it.
  void finish(Slot<R>& slot) noexcept {
    auto const now = Clock::now();
    auto const failure = std::exchange(slot.failure, nullptr);
    if (failure == nullptr) {
      note_time(slot, now);
    }
    make_outcomes(slot, failure, now);
    tickets_.swap(slot.tickets);
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
  /// The slot's first launch since the replica was idle began when it was launched, others when the
  /// one before was over.
  void note_time(Slot<R> const& slot, Clock::time_point now) noexcept {
    auto& replica = pool_.replicas.of(slot);
    pool_.buckets.note(slot.place.bucket, now - std::max(slot.launched_at, replica.idle_since));
    replica.idle_since = now;
  }

  void make_outcomes(Slot<R> const& slot,
                     std::exception_ptr const& failure,
                     Clock::time_point now) noexcept {
    std::size_t begin = 0;
    for (auto const& ticket : slot.tickets) {
      auto const count = static_cast<std::size_t>(ticket.rows * pool_.outputs_per_row);
      outcomes_.push_back(failure != nullptr ? Outcome(failure)
                                             : outcome(slot, ticket, begin, count, now));
      begin += count;
    }
  }
  [[nodiscard]] Outcome outcome(Slot<R> const& slot,
                                Ticket const& ticket,
                                std::size_t begin,
                                std::size_t count,
                                Clock::time_point now) noexcept {
    try {
      auto const values = slot.staging.answers().subspan(begin, count);
      return Outcome(Answer{.values = {values.begin(), values.end()},
                            .version = slot.version->value->number(),
                            .replica = static_cast<int>(slot.place.replica),
                            .queued = slot.launched_at - ticket.admitted_at,
                            .on_device = now - slot.launched_at});
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
  std::vector<Ticket> tickets_;
  std::vector<Outcome> outcomes_;
};

}  // namespace msstream::serve
