// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/replica.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::serve {

/// All replicas of a pool, and the choice among them. Thread-safe; no lock but in fail().
template <Runtime R>
class Replicas {
 public:
  explicit Replicas(std::vector<std::unique_ptr<Replica<R>>> replicas)
      : replicas_(std::move(replicas)), sound_(static_cast<int>(replicas_.size())) {}

  [[nodiscard]] auto begin() const noexcept { return replicas_.begin(); }
  [[nodiscard]] auto end() const noexcept { return replicas_.end(); }
  [[nodiscard]] Replica<R>& of(Slot<R> const& slot) const noexcept {
    return *replicas_[slot.place.replica];
  }

  /// A slot of the sound replica that is busy for the least time, among those that have one; null:
  /// none has. `expected_ns` is what the slot adds to that, until give_back().
  [[nodiscard]] Slot<R>* claim(std::int64_t expected_ns) noexcept {
    while (true) {
      Replica<R>* best = nullptr;
      auto least = std::numeric_limits<std::int64_t>::max();
      for (auto const& replica : replicas_) {
        if (replica->has_idle_slot() && replica->is_sound() && replica->load_ns() < least) {
          best = replica.get();
          least = best->load_ns();
        }
      }
      if (best == nullptr) {
        return nullptr;
      }
      if (auto* const slot = best->claim()) {
        slot->become(Slot<R>::State::claimed);
        slot->expected_ns = expected_ns;
        best->add_load(expected_ns);
        return slot;
      }
    }
  }
  /// Corrects what claim() was told.
  void expect(Slot<R>& slot, std::int64_t expected_ns) noexcept {
    of(slot).add_load(expected_ns - slot.expected_ns);
    slot.expected_ns = expected_ns;
  }
  void give_back(Slot<R>& slot) noexcept {
    auto& replica = of(slot);
    replica.add_load(-slot.expected_ns);
    replica.give_back(slot);
  }

  /// A call of the device failed: the replica gets nothing more to do.
  void fail(Replica<R>& replica, std::exception_ptr const& failure) noexcept {
    if (replica.fail()) {
      std::lock_guard const guard(mutex_);
      last_failure_ = failure;
      sound_.fetch_sub(1);
    }
  }
  [[nodiscard]] int sound() const noexcept { return sound_.load(); }
  /// Null: none has failed.
  [[nodiscard]] std::exception_ptr last_failure() const {
    std::lock_guard const guard(mutex_);
    return last_failure_;
  }

 private:
  std::vector<std::unique_ptr<Replica<R>>> replicas_;
  std::atomic<int> sound_;
  mutable std::mutex mutex_;
  std::exception_ptr last_failure_;
};

}  // namespace msstream::serve
