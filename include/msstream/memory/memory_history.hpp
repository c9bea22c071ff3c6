// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {

/// A change of an allocator's memory, or a refused request.
struct MemoryEvent {
  enum class Kind : std::uint8_t {
    take,       ///< a block was allocated
    give_back,  ///< a block was freed
    grow,       ///< memory was taken from the runtime
    release,    ///< memory was released to the runtime
    move,       ///< free memory was moved to another address
    refuse      ///< OutOfMemory was thrown; the event has no address
  };
  std::int64_t nanoseconds = 0;  ///< the time since the recording began
  Kind kind = Kind::take;
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  order::StreamIndex stream = 0;             ///< the stream of take and give_back
  std::shared_ptr<std::string const> scope;  ///< of take and refuse; null outside all scopes
  bool waits = false;  ///< of take: the first operation waits for the last uses
};
/// Returns the name of a kind: "take", "give back" and so on.
[[nodiscard]] std::string_view name_of(MemoryEvent::Kind kind) noexcept;

namespace memory {

/// Keeps the last `capacity` events. Thread-safe, with one lock: for diagnosis, not for production.
class MemoryHistory {
 public:
  explicit MemoryHistory(std::size_t capacity) : capacity_(capacity) { events_.reserve(capacity); }

  void note(MemoryEvent event) noexcept {
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
  [[nodiscard]] std::vector<MemoryEvent> events() const {
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
  std::vector<MemoryEvent> events_;
  std::size_t next_ = 0;  ///< the oldest event, once the history is full
};

}  // namespace memory
}  // namespace msstream
