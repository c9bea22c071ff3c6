// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/serve/pool_state.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>

namespace msstream::serve {

/// Launches slots on the device, each with the version of the model that is current at the launch.
template <Runtime R>
class Launch {
 public:
  explicit Launch(PoolState<R>& pool) : pool_(pool) {}

  /// Launches a slot, on the thread that has claimed it. Afterwards the slot belongs to the poller:
  /// as launched, or as stranded if the replica failed before anything was issued. An exception
  /// becomes the slot's failure; the failure of a device call also becomes the replica's failure.
  /// Launches on one replica run one at a time.
  void operator()(Slot<R>& slot) noexcept {
    stage_waiting(slot);
    auto& replica = pool_.replicas.of(slot);
    {
      std::lock_guard const one_at_a_time(replica.launching());
      replica.hand_over(slot, launch(slot, replica));
    }
    pool_.bell.ring();
  }

 private:
  using State = typename Slot<R>::State;

  void stage_waiting(Slot<R>& slot) noexcept {
    if (slot.waiting.empty()) {
      return;
    }
    try {
      auto const rows = pool_.buckets.rows(slot.place.bucket);
      std::int64_t used = 0;
      for (auto const& ticket : slot.tickets) {
        used += ticket.rows;
      }
      auto* const values = slot.staging.values(rows, used);
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < slot.waiting.size(); ++i) {
        auto const count = slot.tickets[i].rows;
        pool_.layout->repack(slot.waiting[i]->values.data(), count, values, rows, begin);
        begin += count;
      }
    } catch (...) {
      slot.failure = std::current_exception();
    }
    for (auto* const query : slot.waiting) {
      pool_.queue.release(*query);
    }
    slot.waiting.clear();
  }
  State launch(Slot<R>& slot, Replica<R>& replica) noexcept {
    if (slot.failure != nullptr) {
      return State::launched;  // nothing is in flight, so the slot is complete at once
    }
    if (!replica.is_sound()) {
      slot.failure = pool_.replicas.last_failure();
      return State::stranded;
    }
    pool_.ledger.scores.launches.add();
    bool has_issued = false;
    try {
      issue(slot, replica, has_issued);
    } catch (RuntimeError const&) {
      slot.failure = std::current_exception();
      ++slot.failed_launches;
      pool_.replicas.fail(replica, slot.failure);
      return has_issued ? State::launched : State::stranded;
    } catch (...) {
      slot.failure = std::current_exception();
      await_all_issued(slot, replica);
    }
    return State::launched;
  }
  void issue(Slot<R>& slot, Replica<R>& replica, bool& has_issued) {
    slot.version = &pool_.versions.acquire();
    slot.version_number = slot.version->value->number();
    StreamScope<R> const scope(replica.group());
    slot.staging.expect_answers();
    slot.launched_at = Clock::now();
    slot.position =
        slot.version->value->launch(slot.place, slot.staging, replica.branches(), has_issued);
    has_issued = true;
    slot.ask_at = slot.launched_at + kOverdue;
    if constexpr (must_be_asked<R>) {  // recorded at once, so that it covers no later launch
      slot.event.take(*pool_.context, *slot.position);
    }
  }
  /// Makes the slot wait for all work issued for it, even though the model threw, because that work
  /// uses the slot's buffers.
  void await_all_issued(Slot<R>& slot, Replica<R>& replica) noexcept {
    try {
      slot.event.take_all_of(replica.group().engine());
      slot.ask_at = {};
    } catch (...) {
      pool_.replicas.fail(replica, std::current_exception());
    }
  }

  PoolState<R>& pool_;
};

}  // namespace msstream::serve
