// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace msstream {

/// Counts of allocations and of their costs. A reuse that does not wait costs nothing.
struct AllocationCounts {
  std::uint64_t allocations = 0;
  std::uint64_t reuses = 0;  ///< allocations of memory that work has used before
  std::uint64_t steals = 0;  ///< reuses of memory that another stream used last
  /// Reuses of memory whose last uses may still run; the first operation on it waits for them.
  std::uint64_t waiting_reuses = 0;

  AllocationCounts& operator+=(AllocationCounts const& other) noexcept {
    allocations += other.allocations;
    reuses += other.reuses;
    steals += other.steals;
    waiting_reuses += other.waiting_reuses;
    return *this;
  }
};

/// The memory that an allocator holds, and the counts of its allocations.
struct MemoryStatistics : AllocationCounts {
  std::size_t live_bytes = 0;  ///< the bytes of blocks in use, including rounding
  std::size_t peak_live_bytes = 0;
  std::size_t reserved_bytes = 0;  ///< bytes taken from the runtime
  std::size_t peak_reserved_bytes = 0;
  std::size_t limit_bytes = 0;
  std::uint64_t growths = 0;  ///< calls to the runtime for more memory
  /// The number of bytes that may stay free: of pinned memory when more is taken
  /// (AllocatorOptions::pinned_keep_bytes), of device memory after the host has waited for the
  /// device (AllocatorOptions::keep_bytes).
  std::size_t cache_limit_bytes = 0;

  /// Adds another pool's statistics, and its peaks, too, though they may be of different times.
  MemoryStatistics& operator+=(MemoryStatistics const& other) noexcept {
    AllocationCounts::operator+=(other);
    live_bytes += other.live_bytes;
    peak_live_bytes += other.peak_live_bytes;
    reserved_bytes += other.reserved_bytes;
    peak_reserved_bytes += other.peak_reserved_bytes;
    limit_bytes += other.limit_bytes;
    growths += other.growths;
    cache_limit_bytes += other.cache_limit_bytes;
    return *this;
  }

  [[nodiscard]] std::string describe() const {
    return text(live_bytes,
                " bytes live (peak ",
                peak_live_bytes,
                "), ",
                reserved_bytes,
                " reserved (peak ",
                peak_reserved_bytes,
                ") of at most ",
                limit_bytes,
                " in ",
                growths,
                " growths; ",
                allocations,
                " allocations, ",
                reuses,
                " reuses, ",
                steals,
                " steals, ",
                waiting_reuses,
                " waiting reuses");
  }
};

/// The memory that one stream has in use, and the counts of its allocations.
struct StreamMemory : AllocationCounts {
  std::string stream;  ///< such as "group 2 compute"
  std::size_t live_bytes = 0;
};

/// The memory in use in blocks that were allocated in one name scope for one stream.
struct ScopeMemory {
  std::string scope;   ///< such as "model/tower"; empty outside all scopes
  std::string stream;  ///< such as "group 2 compute"
  std::size_t bytes = 0;
  std::size_t blocks = 0;
};

}  // namespace msstream
