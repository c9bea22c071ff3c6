// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/pools/block_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>

namespace msstream::memory {

/// Releases free memory that a pool has not used for long, beyond the bytes that the pool may keep.
/// Counts waits of the host, not time: memory that is used once in kWaits waits is not released and
/// taken again and again. Thread-safe.
class IdleCache {
 public:
  /// Keeps a reference to `pool`, which takes `step_bytes` from the runtime at a time. The pool may
  /// keep `keep_bytes` and one such step.
  IdleCache(BlockPool& pool, std::size_t keep_bytes, std::size_t step_bytes)
      : pool_(pool), kept_bytes_(with_limit(keep_bytes, step_bytes)) {}

  /// Counts a wait of the host, unless the pool is within the bytes it may keep. Measures the free
  /// memory at every kWaitsALook-th wait, and calls `is_device_idle()` at every kWaits-th. Releases
  /// memory only if that function returns true, because releasing memory may wait for the device.
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
  /// Releases memory that was free at each measurement and not in use between them. Slabs without a
  /// block in use become free memory here.
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
  std::size_t least_idle_bytes_ = 0;  ///< the least since the device was last found idle
};

}  // namespace msstream::memory
