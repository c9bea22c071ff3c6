// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/memory/statistics.hpp>

#include <cstddef>
#include <vector>

namespace msstream::memory {

/// The data for the error message about a request for memory that failed.
struct Refusal {
  char const* space;  ///< the kind of memory, "device" or "pinned"
  std::size_t bytes;  ///< the size of the request
  MemoryStatistics statistics;
  std::size_t largest_free_bytes;  ///< the size of the largest free range
  std::size_t pending_bytes;       ///< free bytes that are still in use on the device
  std::vector<ScopeMemory> uses;   ///< the memory in use, the largest first
};

/// Returns the error. Its message has one line, and an indented line for each of the largest users
/// of memory.
[[nodiscard]] OutOfMemory out_of_memory_error(Refusal const& refusal);

}  // namespace msstream::memory
