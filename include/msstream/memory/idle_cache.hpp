// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/block_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>

namespace msstream::memory {

/// Gives back what a pool has free and has not needed for long, above what it may keep. Counts host
/// waits, not time: what the program needs once in so many waits is not taken again and again.
/// Thread-safe.
template <Runtime R>
class IdleCache {
 public:
  /// `step_bytes`: what the pool takes from the runtime at a time.
  IdleCache(BlockPool<R>& pool, std::size_t keep_bytes, std::size_t step_bytes)
      : pool_(pool), kept_bytes_(with_limit(keep_bytes, step_bytes)) {}

  /// The host has waited. Where the pool may have too much it looks what is free every
  /// kWaitsALook-th time, and asks `is_device_idle()` every kWaits-th: memory goes back only then,
  /// since giving it back may wait for the device.
  template <class IsDeviceIdle>
  void look(IsDeviceIdle const& is_device_idle) {
    if (pool_.reserved_bytes() <= kept_bytes_ ||
        pool_.reserved_bytes() - kept_bytes_ <= pool_.live_bytes()) [[likely]] {
      return;
    }
    std::unique_lock const guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock()) {
      return;
    }
    if (++waits_ % kWaitsALook != 0) {
      return;
    }
    least_idle_bytes_ = std::min(least_idle_bytes_, pool_.idle_bytes());
    if (waits_ < kWaits) {
      return;
    }
    waits_ = 0;
    if (is_device_idle()) {
      give_back();
      least_idle_bytes_ = pool_.idle_bytes();
    }
  }

 private:
  static constexpr int kWaits = 64;
  static constexpr int kWaitsALook = 8;  ///< all free blocks are looked at

  static std::size_t with_limit(std::size_t keep_bytes, std::size_t step_bytes) noexcept {
    auto const most = std::numeric_limits<std::size_t>::max();
    return keep_bytes < most - step_bytes ? keep_bytes + step_bytes : most;
  }
  /// Returns memory that was free each time look() counted, and that was not in use at any time in
  /// between. Slabs of which nothing is in use become free here.
  void give_back() {
    auto const reserved = pool_.reserved_bytes();
    auto const unused = reserved - std::min(reserved, pool_.take_recent_peak());
    auto const idle = std::min(least_idle_bytes_, unused);
    pool_.return_cached_memory(idle > kept_bytes_ ? reserved - (idle - kept_bytes_) : reserved);
  }

  BlockPool<R>& pool_;
  std::size_t const kept_bytes_;
  std::mutex mutex_;  ///< guards what follows
  int waits_ = 0;
  std::size_t least_idle_bytes_ = 0;  ///< since the device was last found idle
};

}  // namespace msstream::memory
