// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/reports/memory_history.hpp"
#include "memory/reports/memory_use.hpp"
#include "memory/supply/backing_memory.hpp"

#include <msstream/base/error.hpp>
#include <msstream/memory/statistics.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace msstream::memory {

struct MemoryAccount {
  MemoryStatistics statistics;
  std::vector<ScopeMemory> uses;  ///< the memory in use, the largest first
};

/// The result of BlockPoolOptions::make_room(), which makes other pools release memory to the
/// runtime: memory was released, memory will be released when work in flight completes, or there is
/// none to release.
enum class Room : std::uint8_t { made, later, none };

struct BlockPoolOptions {
  std::shared_ptr<Capacity> capacity;  ///< the limit on reserved bytes
  std::size_t
      growth_bytes;  ///< bytes taken from the runtime at a time, unless a request needs more
  std::size_t soft_limit_bytes = 0;  ///< the limit on fresh memory: see LargeAllocator
  /// The free bytes that may be kept when another piece of memory is taken from the runtime; see
  /// BackingMemory.
  std::size_t keep_bytes = std::numeric_limits<std::size_t>::max();
  std::chrono::milliseconds wait_for_frees{0};
  /// Whether freed memory becomes usable as the device proceeds; false for the pool of a captured
  /// graph.
  bool has_frees_to_wait_for = true;
  /// A function that is called first when there is no memory, to make other pools release some.
  /// Null if there are no other pools.
  std::function<Room()> make_room = {};
  std::function<bool(OutOfMemory const&)> on_out_of_memory = {};
  /// Returns the memory of all pools that share the memory limit. Null if no other pool shares it.
  std::function<MemoryAccount()> account = {};
  std::shared_ptr<MemoryHistory> history =
      nullptr;  ///< the recorder of events; null if none are recorded
  /// A function that is called with the number of each step of a search before the step is tried.
  /// May be null.
  std::function<void(int)> on_step = {};
};

}  // namespace msstream::memory
