// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace msstream::memory {

/// Counts the bytes of a pool that are in use, and their peak. Each stream counts its own bytes.
/// The count that all streams share is written only if a stream's bytes have changed by much
/// between two allocations, so threads that allocate and free in turn seldom contend. Thread-safe.
class LiveBytes {
 public:
  /// The bytes that one stream uses. Changed by one thread at a time.
  class alignas(64) Part {
   public:
    [[nodiscard]] std::size_t bytes() const noexcept {
      return bytes_.load(std::memory_order_relaxed);
    }

   private:
    friend class LiveBytes;
    std::atomic<std::size_t> bytes_{0};
    std::size_t told_ = 0;
    Part* next_ = nullptr;
  };

  LiveBytes() = default;
  LiveBytes(LiveBytes const&) = delete;
  LiveBytes& operator=(LiveBytes const&) = delete;

  /// Adds a stream's count to the sum; called once per count. The count must live as long as the
  /// LiveBytes.
  void enter(Part& part) noexcept {
    part.next_ = parts_.load(std::memory_order_relaxed);
    while (!parts_.compare_exchange_weak(part.next_, &part, std::memory_order_acq_rel)) {
    }
  }
  void add(Part& part, std::size_t bytes) noexcept {
    auto const now = part.bytes() + bytes;
    part.bytes_.store(now, std::memory_order_relaxed);
    if (now > part.told_ + untold_growth(part.told_) || now + kUntoldShrinkage < part.told_) {
      tell(part, now);
    }
  }
  void subtract(Part& part, std::size_t bytes) noexcept {
    part.bytes_.store(part.bytes() - bytes, std::memory_order_relaxed);
  }

  /// Returns the sum of the bytes of all streams.
  [[nodiscard]] std::size_t now() const noexcept {
    std::size_t total = 0;
    for (auto const* part = parts_.load(std::memory_order_acquire); part != nullptr;
         part = part->next_) {
      total += part->bytes();
    }
    return total;
  }
  /// Returns the sum that the streams last reported: cheaper than now(), roughly right, and
  /// including memory that a stream has freed since its last allocation.
  [[nodiscard]] std::size_t told() const noexcept { return told_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  /// Returns the peak of the bytes in use since the last call, and starts a new peak.
  [[nodiscard]] std::size_t take_recent_peak() noexcept {
    return recent_peak_.exchange(now(), std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kUntoldShrinkage = std::size_t{1} << 20U;

  /// Returns the growth up to which a stream need not report to the shared count: 1/8 of the bytes
  /// last reported, at least 64 KiB, at most 1 MiB. Peaks are exact to within that.
  static constexpr std::size_t untold_growth(std::size_t told) noexcept {
    return std::clamp(told / 8, std::size_t{64} << 10U, std::size_t{1} << 20U);
  }

  void tell(Part& part, std::size_t bytes) noexcept {
    auto const change = bytes - part.told_;
    part.told_ = bytes;
    auto const told = told_.fetch_add(change, std::memory_order_relaxed) + change;
    if (told > peak_.load(std::memory_order_relaxed) ||
        told > recent_peak_.load(std::memory_order_relaxed)) {
      auto const exact = now();
      raise(peak_, exact);
      raise(recent_peak_, exact);
    }
  }
  static void raise(std::atomic<std::size_t>& peak, std::size_t total) noexcept {
    auto seen = peak.load(std::memory_order_relaxed);
    while (seen < total && !peak.compare_exchange_weak(seen, total, std::memory_order_relaxed)) {
    }
  }

  std::atomic<Part*> parts_{nullptr};
  std::atomic<std::size_t> told_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> recent_peak_{0};
};

}  // namespace msstream::memory
