// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/refusals.hpp"
#include "serve/replica.hpp"

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

/// All replicas of a pool, and the choice among them. Thread-safe. Only fail() and reading the last
/// failure use a lock.
class Replicas {
 public:
  explicit Replicas(std::vector<std::unique_ptr<Replica>> replicas)
      : replicas_(std::move(replicas)), sound_(static_cast<int>(replicas_.size())) {}

  [[nodiscard]] auto begin() const noexcept { return replicas_.begin(); }
  [[nodiscard]] auto end() const noexcept { return replicas_.end(); }
  [[nodiscard]] Replica& of(Slot const& slot) const noexcept {
    return *replicas_[slot.place.replica];
  }

  /// Claims a slot of the sound replica with the least load, among the replicas that have an idle
  /// slot; returns null if there is none. Adds `expected_ns` to the load until give_back(). Among
  /// replicas of equal load, successive calls prefer different ones; concurrent calls see each
  /// other's additions, so they do not all choose the same replica.
  [[nodiscard]] Slot* claim(std::int64_t expected_ns) noexcept;
  /// Replaces the expected time that claim() has added to the load.
  void expect(Slot& slot, std::int64_t expected_ns) noexcept;
  void give_back(Slot& slot) noexcept;

  /// Marks the replica as failed, so that it gets no more work. Called after a call of the device
  /// has failed.
  void fail(Replica& replica, std::exception_ptr const& failure) noexcept;
  [[nodiscard]] int sound() const noexcept { return sound_.load(); }
  /// Returns the last failure of a replica, or null if none has failed.
  [[nodiscard]] std::exception_ptr last_failure() const noexcept;
  /// Returns the exception for queries when no replica is sound any more; null while one is.
  [[nodiscard]] std::exception_ptr none_left() const noexcept;

 private:
  struct Candidate {
    Replica* replica = nullptr;
    std::int64_t load_ns = std::numeric_limits<std::int64_t>::max();
  };
  [[nodiscard]] Candidate least_loaded() const noexcept;
  /// Returns the index of the replica with which a search for an idle slot begins. It advances with
  /// each call of a thread and starts differently in each thread, so that threads share no counter.
  [[nodiscard]] std::size_t first_to_look_at() const noexcept;

  std::vector<std::unique_ptr<Replica>> replicas_;
  std::atomic<int> sound_;
  mutable std::mutex mutex_;
  std::exception_ptr last_failure_;
  std::exception_ptr none_left_;
};

}  // namespace msstream::serve
