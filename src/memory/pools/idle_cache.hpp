// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/pools/block_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>

namespace msstream::memory {

/// Releases free memory that a pool has not needed for long, beyond the bytes that the pool may
/// keep. Counts host waits, not time: memory that is needed once in kWaits waits is not released
/// and taken repeatedly. Thread-safe.
class IdleCache {
 public:
  /// Watches `pool`, which takes `step_bytes` from the runtime at a time.
  IdleCache(BlockPool& pool, std::size_t keep_bytes, std::size_t step_bytes)
      : pool_(pool), kept_bytes_(with_limit(keep_bytes, step_bytes)) {}

  /// Counts a wait of the host, if the pool may have too much memory. Measures the free memory at
  /// every kWaitsALook-th wait, and calls `is_device_idle()` at every kWaits-th. Releases memory
  /// only if that returns true, because releasing memory may wait for the device.
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
  static constexpr int kWaitsALook = 8;  ///< each look visits all free blocks

  static std::size_t with_limit(std::size_t keep_bytes, std::size_t step_bytes) noexcept {
    auto const most = std::numeric_limits<std::size_t>::max();
    return keep_bytes < most - step_bytes ? keep_bytes + step_bytes : most;
  }
  /// Releases memory that was free at each look, and in use at no time in between. Slabs of which
  /// nothing is in use become free here.
  void give_back() {
    auto const reserved = pool_.reserved_bytes();
    auto const unused = reserved - std::min(reserved, pool_.take_recent_peak());
    auto const idle = std::min(least_idle_bytes_, unused);
    pool_.return_cached_memory(idle > kept_bytes_ ? reserved - (idle - kept_bytes_) : reserved);
  }

  BlockPool& pool_;
  std::size_t const kept_bytes_;
  std::mutex mutex_;  ///< guards all members below
  int waits_ = 0;
  std::size_t least_idle_bytes_ = 0;  ///< the least at any look since the device was last idle
};

}  // namespace msstream::memory
