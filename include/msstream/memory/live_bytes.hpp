// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

namespace msstream::memory {

/// How much of a pool is in use, and was at most, as its streams tell now and then: a stream that
/// takes and gives back in turn tells nothing.
class LiveBytes {
 public:
  /// A stream tells when it uses so much more than it told last, or so much less.
  static constexpr std::size_t kUntoldGrowth = std::size_t{64} << 10U;
  static constexpr std::size_t kUntoldShrinkage = std::size_t{1} << 20U;

  void tell(std::size_t before, std::size_t now) noexcept {
    auto const total = told_.fetch_add(now - before, std::memory_order_relaxed) + (now - before);
    raise(peak_, total);
    raise(recent_peak_, total);
  }
  [[nodiscard]] std::size_t told() const noexcept { return told_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  /// Since the last call, which begins anew.
  [[nodiscard]] std::size_t take_recent_peak() noexcept {
    return recent_peak_.exchange(told(), std::memory_order_relaxed);
  }

 private:
  static void raise(std::atomic<std::size_t>& peak, std::size_t total) noexcept {
    auto seen = peak.load(std::memory_order_relaxed);
    while (seen < total && !peak.compare_exchange_weak(seen, total, std::memory_order_relaxed)) {
    }
  }

  std::atomic<std::size_t> told_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> recent_peak_{0};
};

}  // namespace msstream::memory
