// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/refusals.hpp>
#include <msstream/serve/replica.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::serve {

/// All replicas of a pool, and the choice among them. Thread-safe; only fail() and the failures
/// that it stores use a lock.
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

  /// Claims a slot of the sound replica with the least load, among the replicas that have an idle
  /// slot; returns null if there is none. `expected_ns` is added to the load until give_back().
  /// Among replicas with equal load, each call prefers a different one, and concurrent calls see
  /// each other's additions, so they do not all choose the same replica.
  [[nodiscard]] Slot<R>* claim(std::int64_t expected_ns) noexcept {
    while (true) {
      auto const [best, least] = least_loaded();
      if (best == nullptr) {
        return nullptr;
      }
      if (!best->add_load_to(least, expected_ns)) {
        continue;  // another thread has changed the load
      }
      if (auto* const slot = best->claim()) {
        slot->become(Slot<R>::State::claimed);
        slot->expected_ns = expected_ns;
        return slot;
      }
      best->add_load(-expected_ns);
    }
  }
  /// Corrects the expected time that claim() added to the load.
  void expect(Slot<R>& slot, std::int64_t expected_ns) noexcept {
    of(slot).add_load(expected_ns - slot.expected_ns);
    slot.expected_ns = expected_ns;
  }
  void give_back(Slot<R>& slot) noexcept {
    auto& replica = of(slot);
    replica.add_load(-slot.expected_ns);
    replica.give_back(slot);
  }

  /// Marks the replica as failed after a failed call of the device, so that it gets no more work.
  void fail(Replica<R>& replica, std::exception_ptr const& failure) noexcept {
    if (replica.fail()) {
      std::lock_guard const guard(mutex_);
      last_failure_ = failure;
      if (sound_.load() == 1) {
        none_left_ = no_replica_left(failure);
      }
      sound_.fetch_sub(1);
    }
  }
  [[nodiscard]] int sound() const noexcept { return sound_.load(); }
  /// Returns the last failure of a replica, or null if none has failed.
  [[nodiscard]] std::exception_ptr last_failure() const noexcept {
    std::lock_guard const guard(mutex_);
    return last_failure_;
  }
  /// Returns the exception for queries when no replica is sound, or null while one is.
  [[nodiscard]] std::exception_ptr none_left() const noexcept {
    std::lock_guard const guard(mutex_);
    return none_left_;
  }

 private:
  struct Candidate {
    Replica<R>* replica = nullptr;
    std::int64_t load_ns = std::numeric_limits<std::int64_t>::max();
  };
  [[nodiscard]] Candidate least_loaded() const noexcept {
    Candidate best;
    auto place = first_to_look_at();
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      auto* const replica = replicas_[place].get();
      if (replica->has_idle_slot() && replica->is_sound()) {
        if (auto const load = replica->load_ns(); load < best.load_ns) {
          best = {replica, load};
        }
      }
      place = place + 1 == replicas_.size() ? 0 : place + 1;
    }
    return best;
  }
  /// Returns the index of the replica to look at first. It advances with each call of a thread and
  /// starts differently in each thread, so that threads share no counter.
  [[nodiscard]] std::size_t first_to_look_at() const noexcept {
    thread_local std::size_t next = std::hash<std::thread::id>{}(std::this_thread::get_id());
    return next++ % replicas_.size();
  }

  std::vector<std::unique_ptr<Replica<R>>> replicas_;
  std::atomic<int> sound_;
  mutable std::mutex mutex_;
  std::exception_ptr last_failure_;
  std::exception_ptr none_left_;
};

}  // namespace msstream::serve
