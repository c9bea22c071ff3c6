// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>

#include <cstdint>

namespace msstream::load {

/// The memory in use at the moment, in bytes. Differences between two moments may be negative.
struct MemoryTaken {
  std::int64_t in_use = 0;    ///< device memory that the allocator has given out
  std::int64_t reserved = 0;  ///< device memory that the allocator has from the driver
  std::int64_t device = 0;    ///< device memory in use by all programs, from the driver
  std::int64_t pinned = 0;    ///< pinned host memory in use
  std::int64_t resident = 0;  ///< host memory of the process; 0 if unknown

  friend MemoryTaken operator-(MemoryTaken const& left, MemoryTaken const& right) noexcept {
    return {.in_use = left.in_use - right.in_use,
            .reserved = left.reserved - right.reserved,
            .device = left.device - right.device,
            .pinned = left.pinned - right.pinned,
            .resident = left.resident - right.resident};
  }
  friend MemoryTaken operator/(MemoryTaken const& all, std::int64_t parts) noexcept {
    return {.in_use = all.in_use / parts,
            .reserved = all.reserved / parts,
            .device = all.device / parts,
            .pinned = all.pinned / parts,
            .resident = all.resident / parts};
  }
};

/// Returns the resident memory of the calling process in bytes; 0 if the system does not report it.
[[nodiscard]] std::int64_t resident_bytes();

/// Returns the memory in use on the device and on the host. Thread-safe. Throws the runtime's
/// errors.
template <Runtime R>
[[nodiscard]] MemoryTaken memory_taken(Device<R> const& device) {
  auto const of_allocator = device.memory_statistics();
  auto const of_device = device.runtime().memory_info();
  return {.in_use = static_cast<std::int64_t>(of_allocator.live_bytes),
          .reserved = static_cast<std::int64_t>(of_allocator.reserved_bytes),
          .device = static_cast<std::int64_t>(of_device.total_bytes) -
                    static_cast<std::int64_t>(of_device.free_bytes),
          .pinned = static_cast<std::int64_t>(device.pinned_memory_statistics().live_bytes),
          .resident = resident_bytes()};
}

}  // namespace msstream::load
