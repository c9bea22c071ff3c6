// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/slot.hpp>
#include <msstream/stream/doorbell.hpp>
#include <msstream/stream/stream_group.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::serve {

/// Of a replica.
inline constexpr int kMostSlots = 64;

/// Stream groups that run the model, and its slots.
///
/// States: sound; failed, for ever, after a call of the device failed: it is given no more queries,
/// and what it has launched is looked at as before. Ownership: the pool's. Memory ordering: a slot
/// is given back with release and claimed with acquire; the load is a hint.
template <Runtime R>
class Replica {
 public:
  Replica(Branches<R> branches, std::vector<std::unique_ptr<Slot<R>>> slots)
      : branches_(std::move(branches)),
        slots_(std::move(slots)),
        idle_(~std::uint64_t{0} >> (static_cast<std::size_t>(kMostSlots) - slots_.size())) {}

  /// Where it is launched.
  [[nodiscard]] StreamGroup<R>& group() const noexcept { return *branches_.front(); }
  [[nodiscard]] Branches<R> const& branches() const noexcept { return branches_; }
  [[nodiscard]] std::vector<std::unique_ptr<Slot<R>>> const& slots() const noexcept {
    return slots_;
  }

  [[nodiscard]] bool is_sound() const noexcept { return sound_.load(std::memory_order_relaxed); }
  /// Whether it was sound.
  bool fail() noexcept { return sound_.exchange(false); }

  [[nodiscard]] bool has_idle_slot() const noexcept {
    return idle_.load(std::memory_order_relaxed) != 0;
  }
  /// How long it is going to be busy, as far as one knows.
  [[nodiscard]] std::int64_t load_ns() const noexcept {
    return load_ns_.load(std::memory_order_relaxed);
  }
  /// A slot that nobody else has; null: there is none.
  [[nodiscard]] Slot<R>* claim() noexcept {
    auto idle = idle_.load(std::memory_order_relaxed);
    while (idle != 0) {
      if (idle_.compare_exchange_weak(
              idle, idle & (idle - 1), std::memory_order_acquire, std::memory_order_relaxed)) {
        return slots_[static_cast<std::size_t>(std::countr_zero(idle))].get();
      }
    }
    return nullptr;
  }
  /// Nobody gets a slot of a failed replica: its buffers may be in use for ever.
  void give_back(Slot<R>& slot) noexcept {
    slot.become(Slot<R>::State::idle);
    if (is_sound()) {
      idle_.fetch_or(std::uint64_t{1} << slot.place.slot, std::memory_order_release);
    }
  }
  void add_load(std::int64_t ns) noexcept { load_ns_.fetch_add(ns, std::memory_order_relaxed); }

  /// Of the slots launched the one launched first; null: none is. For the poller.
  [[nodiscard]] Slot<R>* first_launched() const noexcept {
    Slot<R>* first = nullptr;
    for (auto const& slot : slots_) {
      if (slot->is(Slot<R>::State::launched) &&
          (first == nullptr || slot->launch_number < first->launch_number)) {
        first = slot.get();
      }
    }
    return first;
  }
  [[nodiscard]] std::uint64_t next_launch_number() noexcept {
    return launches_.fetch_add(1, std::memory_order_relaxed);
  }

  /// Whom to tell of a slot that is staged; null: there are no launch threads. Set before all else.
  Doorbell* launch_bell = nullptr;
  /// When its last launch was over; the poller's.
  Clock::time_point idle_since = {};

 private:
  Branches<R> branches_;
  std::vector<std::unique_ptr<Slot<R>>> slots_;
  std::atomic<bool> sound_{true};
  alignas(64) std::atomic<std::uint64_t> idle_;  ///< a bit for each slot
  std::atomic<std::int64_t> load_ns_{0};
  std::atomic<std::uint64_t> launches_{0};
};

}  // namespace msstream::serve
