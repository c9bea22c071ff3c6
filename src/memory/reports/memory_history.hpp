// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/statistics.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::memory {

/// Keeps the last `capacity` events of a pool's memory. Thread-safe, with one lock: for diagnosis,
/// not for production.
class MemoryHistory {
 public:
  explicit MemoryHistory(std::size_t capacity) : capacity_(capacity) { events_.reserve(capacity); }

  void note(MemorySnapshot::Event event) noexcept {
    std::lock_guard const guard(mutex_);
    event.nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::steady_clock::now() - began_)
                            .count();
    if (events_.size() < capacity_) {
      events_.push_back(std::move(event));
    } else {
      events_[next_] = std::move(event);
      next_ = (next_ + 1) % capacity_;
    }
  }
  /// Returns the events, the oldest first.
  [[nodiscard]] std::vector<MemorySnapshot::Event> events() const {
    std::lock_guard const guard(mutex_);
    auto ordered = events_;
    std::rotate(
        ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(next_), ordered.end());
    return ordered;
  }

 private:
  std::size_t const capacity_;
  std::chrono::steady_clock::time_point const began_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::vector<MemorySnapshot::Event> events_;
  std::size_t next_ = 0;  ///< the index of the oldest event, once the history is full
};

}  // namespace msstream::memory
