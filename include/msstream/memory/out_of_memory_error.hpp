// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/memory/memory_use.hpp>
#include <msstream/memory/statistics.hpp>

#include <cstddef>
#include <vector>

namespace msstream::memory {

/// What whoever is refused memory wants to know.
struct Refusal {
  char const* space;  ///< "device" or "pinned"
  std::size_t bytes;  ///< asked
  MemoryStatistics statistics;
  std::size_t largest_free_bytes;  ///< of one range
  std::size_t pending_bytes;       ///< free, but in use on the device
  std::vector<ScopeMemory> uses;   ///< the largest first
};

/// The error that says so: a line, and one for each of the largest users, indented.
[[nodiscard]] OutOfMemory out_of_memory_error(Refusal const& refusal);

}  // namespace msstream::memory
