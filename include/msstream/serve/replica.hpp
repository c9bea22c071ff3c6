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
#include <mutex>
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
  /// How long what it has to do takes, as far as one knows.
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
  /// The same if it is what one thinks it is.
  [[nodiscard]] bool add_load_to(std::int64_t known, std::int64_t ns) noexcept {
    return load_ns_.compare_exchange_strong(known, known + ns, std::memory_order_relaxed);
  }

  /// Hands a slot over as staged or launched, after those before.
  void hand_over(Slot<R>& slot, typename Slot<R>::State as) noexcept {
    slot.number = hand_overs_.fetch_add(1, std::memory_order_relaxed);
    slot.become(as);
  }
  /// Of the slots in a state, which are the calling thread's, the one handed over first; null:
  /// there is none.
  [[nodiscard]] Slot<R>* first(typename Slot<R>::State in) const noexcept {
    Slot<R>* first = nullptr;
    for (auto const& slot : slots_) {
      if (slot->is(in) && (first == nullptr || slot->number < first->number)) {
        first = slot.get();
      }
    }
    return first;
  }
  /// Held by who launches, until the slot is handed over: what the device is given last is then
  /// launched last.
  [[nodiscard]] std::mutex& launching() noexcept { return launching_; }

  /// Whom to tell of a slot that is staged; null: there are no launch threads. Set before all else.
  Doorbell* launch_bell = nullptr;
  /// When the last launch that the poller has seen to be over was over; the poller's.
  alignas(64) Clock::time_point over_at = {};

 private:
  // On lines of their own: what hardly changes, what is of those who claim, of those who launch.
  alignas(64) Branches<R> branches_;
  std::vector<std::unique_ptr<Slot<R>>> slots_;
  std::atomic<bool> sound_{true};
  alignas(64) std::atomic<std::uint64_t> idle_;  ///< a bit for each slot
  std::atomic<std::int64_t> load_ns_{0};
  alignas(64) std::mutex launching_;
  std::atomic<std::uint64_t> hand_overs_{0};
};

}  // namespace msstream::serve
