// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/serve/pool_state.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

namespace msstream::serve {

/// Gives slots to the device, each with the version of the model that is current then.
template <Runtime R>
class Launch {
 public:
  explicit Launch(PoolState<R>& pool) : pool_(pool) {}

  /// For the thread that has the slot. The slot is the poller's then: launched, or stranded when
  /// the replica failed before anything was issued. What was thrown is the slot's failure. A call
  /// of the device that fails is the replica's failure, too.
  void operator()(Slot<R>& slot) noexcept {
    stage_waiting(slot);
    auto& replica = pool_.replicas.of(slot);
    bool const is_stranded = slot.failure == nullptr && !give(slot, replica);
    slot.launch_number = replica.next_launch_number();
    pool_.ledger.scores.launches.add();
    slot.become(is_stranded ? Slot<R>::State::stranded : Slot<R>::State::launched);
    pool_.bell.ring();
  }

 private:
  void stage_waiting(Slot<R>& slot) noexcept {
    if (slot.waiting.empty()) {
      return;
    }
    try {
      auto const rows = pool_.buckets.rows(slot.place.bucket);
      auto* const values = slot.staging.values();
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
  /// False: the replica has failed, and nothing was issued.
  bool give(Slot<R>& slot, Replica<R>& replica) noexcept {
    bool has_issued = false;
    try {
      issue(slot, replica, has_issued);
    } catch (RuntimeError const&) {
      slot.failure = std::current_exception();
      pool_.replicas.fail(replica, slot.failure);
      return has_issued;
    } catch (...) {
      slot.failure = std::current_exception();
      if (has_issued) {
        await_all_issued(slot, replica);
      }
    }
    return true;
  }
  void issue(Slot<R>& slot, Replica<R>& replica, bool& has_issued) {
    slot.version = &pool_.versions.acquire();
    StreamScope<R> const scope(replica.group());
    slot.launched_at = Clock::now();
    auto const position =
        slot.version->value->launch(slot.place, slot.staging, replica.branches(), has_issued);
    has_issued = true;
    // Recorded at once, so that it stands for no later launch.
    if (auto event = pool_.context->tracker->event_at(position)) {
      slot.event.emplace(pool_.context, std::move(event));
    }
  }
  /// The slot's buffers are used until then.
  void await_all_issued(Slot<R>& slot, Replica<R>& replica) noexcept {
    try {
      slot.event = replica.group().h2d().record();
    } catch (...) {
      pool_.replicas.fail(replica, std::current_exception());
    }
  }

  PoolState<R>& pool_;
};

}  // namespace msstream::serve
