// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>

namespace msstream::memory {

/// Remembers when something last happened, and returns whether that was recently. Thread-safe.
class Lately {
 public:
  void note() noexcept { last_.store(now(), std::memory_order_relaxed); }
  [[nodiscard]] bool has_happened(
      std::chrono::nanoseconds within = std::chrono::seconds(1)) const noexcept {
    auto const last = last_.load(std::memory_order_relaxed);
    return last != kNever && now() - last < within;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kNever = Clock::duration::min();

  static Clock::duration now() noexcept { return Clock::now().time_since_epoch(); }

  std::atomic<Clock::duration> last_{kNever};
};

}  // namespace msstream::memory
