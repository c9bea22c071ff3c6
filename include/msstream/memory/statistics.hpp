// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace msstream {

/// What an allocator holds and how it came by it.
struct MemoryStatistics {
  std::size_t live_bytes = 0;  ///< in blocks in use, rounding included
  std::size_t peak_live_bytes = 0;
  std::size_t reserved_bytes = 0;  ///< taken from the runtime
  std::size_t peak_reserved_bytes = 0;
  std::size_t limit_bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t growths = 0;  ///< calls to the runtime for more memory
  /// Blocks handed out although their last uses may still run; the first write waits.
  std::uint64_t waiting_reuses = 0;

  /// Of two pools together. Their peaks are added, though they may not have been at the same time.
  MemoryStatistics& operator+=(MemoryStatistics const& other) noexcept {
    live_bytes += other.live_bytes;
    peak_live_bytes += other.peak_live_bytes;
    reserved_bytes += other.reserved_bytes;
    peak_reserved_bytes += other.peak_reserved_bytes;
    limit_bytes += other.limit_bytes;
    allocations += other.allocations;
    growths += other.growths;
    waiting_reuses += other.waiting_reuses;
    return *this;
  }
};

}  // namespace msstream
