// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/slot.hpp"
#include "stream/doorbell.hpp"

#include <msstream/serve/detail/branches.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::serve {

/// The maximum number of slots of a replica.
inline constexpr int kMostSlots = 64;

/// A replica of a pool: the stream groups that run its copy of the model, and its slots.
///
/// States: sound; failed permanently, after a call of the device failed. A failed replica gets no
/// more queries; its launches in flight are still polled. Ownership: the pool owns the replica.
/// Memory ordering: a slot is given back with release and claimed with acquire; has_idle_slot() is
/// a hint.
class Replica {
 public:
  Replica(detail::AnyBranches branches, std::vector<std::unique_ptr<Slot>> slots)
      : branches_(std::move(branches)),
        slots_(std::move(slots)),
        idle_(~std::uint64_t{0} >> (static_cast<std::size_t>(kMostSlots) - slots_.size())) {}

  /// Returns the stream group on which the replica's launches are issued.
  [[nodiscard]] std::shared_ptr<detail::StreamGroup> const& group() const noexcept {
    return branches_.front();
  }
  [[nodiscard]] detail::AnyBranches const& branches() const noexcept { return branches_; }
  [[nodiscard]] std::vector<std::unique_ptr<Slot>> const& slots() const noexcept { return slots_; }

  [[nodiscard]] bool is_sound() const noexcept { return sound_.load(std::memory_order_relaxed); }
  /// Marks the replica as failed. Returns whether it was not marked before.
  bool fail() noexcept { return sound_.exchange(false); }

  [[nodiscard]] bool has_idle_slot() const noexcept {
    return idle_.load(std::memory_order_relaxed) != 0;
  }
  /// Returns the expected device time in ns of all work that the replica has not completed.
  [[nodiscard]] std::int64_t load_ns() const noexcept {
    return load_ns_.load(std::memory_order_relaxed);
  }
  /// Claims an idle slot for the calling thread. Returns null if there is none.
  [[nodiscard]] Slot* claim() noexcept {
    auto idle = idle_.load(std::memory_order_relaxed);
    while (idle != 0) {
      if (idle_.compare_exchange_weak(
              idle, idle & (idle - 1), std::memory_order_acquire, std::memory_order_relaxed)) {
        return slots_[static_cast<std::size_t>(std::countr_zero(idle))].get();
      }
    }
    return nullptr;
  }
  /// Makes the slot idle. A slot of a failed replica cannot be claimed again, because its buffers
  /// may be in use for ever.
  void give_back(Slot& slot) noexcept {
    slot.become(Slot::State::idle);
    if (is_sound()) {
      idle_.fetch_or(std::uint64_t{1} << slot.place.slot, std::memory_order_release);
    }
  }
  void add_load(std::int64_t ns) noexcept { load_ns_.fetch_add(ns, std::memory_order_relaxed); }
  /// Adds `ns` to the load if the load still equals `known`. Returns whether it did.
  [[nodiscard]] bool add_load_to(std::int64_t known, std::int64_t ns) noexcept {
    return load_ns_.compare_exchange_strong(known, known + ns, std::memory_order_relaxed);
  }

  /// Hands a slot over to its next owner in state staged or launched, numbered after all slots
  /// handed over before.
  void hand_over(Slot& slot, Slot::State as) noexcept {
    slot.number = hand_overs_.fetch_add(1, std::memory_order_relaxed);
    slot.become(as);
  }
  /// Returns the slot in state `in` that was handed over first, or null if there is none. The
  /// calling thread must own all slots in that state.
  [[nodiscard]] Slot* first(Slot::State in) const noexcept {
    Slot* first = nullptr;
    for (auto const& slot : slots_) {
      if (slot->is(in) && (first == nullptr || slot->number < first->number)) {
        first = slot.get();
      }
    }
    return first;
  }
  /// Returns the mutex that a launching thread holds until it has handed over the slot, so that
  /// slots are handed over in the order of their launches.
  [[nodiscard]] std::mutex& launching() noexcept { return launching_; }

  /// The bell that is rung when a slot is staged; null if there are no launch threads. Set before
  /// the replica is used.
  detail::Doorbell* launch_bell = nullptr;
  /// The time at which the poller last saw a launch of the replica complete. Used by the poller
  /// only.
  alignas(64) Clock::time_point over_at = {};

 private:
  // Members on three cache lines: those that hardly ever change, those written by claiming threads,
  // and those written by launching threads.
  alignas(64) detail::AnyBranches branches_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::atomic<bool> sound_{true};
  alignas(64) std::atomic<std::uint64_t> idle_;  ///< one bit for each idle slot
  std::atomic<std::int64_t> load_ns_{0};
  alignas(64) std::mutex launching_;
  std::atomic<std::uint64_t> hand_overs_{0};
};

}  // namespace msstream::serve
