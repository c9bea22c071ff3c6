// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/memory/capacity.hpp>
#include <msstream/memory/memory_history.hpp>
#include <msstream/memory/memory_use.hpp>
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
  std::vector<ScopeMemory> uses;  ///< the largest first
};

/// The answer of BlockPoolOptions::make_room(), which asks other pools to give memory back to the
/// runtime: they have, they will when work in flight is over, or they have none to give.
enum class Room : std::uint8_t { made, later, none };

struct BlockPoolOptions {
  std::shared_ptr<Capacity> capacity;  ///< never reserves more
  std::size_t growth_bytes;  ///< takes as much at a time from the runtime, or what a request needs
  std::size_t soft_limit_bytes = 0;  ///< see LargeBlocks
  /// See MemorySupply.
  std::size_t keep_bytes = std::numeric_limits<std::size_t>::max();
  std::chrono::milliseconds wait_for_frees{0};
  /// Whether what is given back gets free as the device goes on: not while a graph is captured.
  bool has_frees_to_wait_for = true;
  /// Asked first where there is no memory; null: there is nobody to ask.
  std::function<Room()> make_room = {};
  std::function<bool(OutOfMemory const&)> on_out_of_memory = {};
  /// The memory of all pools that share the limit; null: no other pool shares it.
  std::function<MemoryAccount()> account = {};
  std::shared_ptr<MemoryHistory> history = nullptr;  ///< gets what happens; null: nobody
};

}  // namespace msstream::memory
