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

  /// A slot of the sound replica that has the least to do, among those that have one; null: none
  /// has. `expected_ns` is what the slot adds to that, until give_back(). Of replicas that have
  /// equally little to do each call prefers another one, and of calls at once one adds to what the
  /// other saw: they do not all take the same.
  [[nodiscard]] Slot<R>* claim(std::int64_t expected_ns) noexcept {
    while (true) {
      auto const [best, least] = least_loaded();
      if (best == nullptr) {
        return nullptr;
      }
      if (!best->add_load_to(least, expected_ns)) {
        continue;  // somebody else was faster
      }
      if (auto* const slot = best->claim()) {
        slot->become(Slot<R>::State::claimed);
        slot->expected_ns = expected_ns;
        return slot;
      }
      best->add_load(-expected_ns);
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
      if (sound_.load() == 1) {
        none_left_ = no_replica_left(failure);
      }
      sound_.fetch_sub(1);
    }
  }
  [[nodiscard]] int sound() const noexcept { return sound_.load(); }
  /// Null: none has failed.
  [[nodiscard]] std::exception_ptr last_failure() const noexcept {
    std::lock_guard const guard(mutex_);
    return last_failure_;
  }
  /// What queries get when none is sound; null before.
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
  /// Another one each time, and for each thread: no thread tells the others.
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
