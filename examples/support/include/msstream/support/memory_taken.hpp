// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>

#include <cstdint>

namespace msstream::support {

/// What is taken at the moment, in bytes; a difference of two may be below 0.
struct MemoryTaken {
  std::int64_t in_use = 0;    ///< of the device's memory, as its allocator gives it out
  std::int64_t reserved = 0;  ///< had from the driver by the allocator
  std::int64_t device = 0;    ///< by everybody and for everything, as the driver says
  std::int64_t pinned = 0;    ///< in use on the host
  std::int64_t resident = 0;  ///< of the process on the host; 0 where the system does not say

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

/// Of the calling process.
[[nodiscard]] std::int64_t resident_bytes();

/// Thread-safe. Throws what the runtime throws.
template <Runtime R>
[[nodiscard]] MemoryTaken memory_taken(Device<R> const& device) {
  auto const of_allocator = device.memory_statistics();
  auto const of_device = device.context()->runtime->memory_info();
  return {.in_use = static_cast<std::int64_t>(of_allocator.live_bytes),
          .reserved = static_cast<std::int64_t>(of_allocator.reserved_bytes),
          .device = static_cast<std::int64_t>(of_device.total_bytes) -
                    static_cast<std::int64_t>(of_device.free_bytes),
          .pinned = static_cast<std::int64_t>(device.state()->pinned.statistics().live_bytes),
          .resident = resident_bytes()};
}

}  // namespace msstream::support
