// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/env.hpp>
#include <msstream/base/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace msstream {

/// The sharing of free device memory among stream groups. `shared`: all groups use one pool.
/// `private_pools`: each group has a pool with an equal part of the limit.
/// `private_pools_one_limit`: each group has a pool, and the pools together reserve no more than
/// the limit; memory cached by one pool is released when another pool needs it.
enum class PoolMode : std::uint8_t { shared, private_pools, private_pools_one_limit };

/// The sharing of free pinned memory among stream groups. `shared`: all groups use one pool.
/// `per_group`: each group has a pool, so a group never waits for the lock of another group, nor
/// queries the copies of another group.
enum class PinnedMode : std::uint8_t { shared, per_group };

struct AllocatorOptions {
  /// The hard limit on reserved device memory in bytes. 0: `limit_fraction` sets the limit.
  std::size_t limit_bytes =
      static_cast<std::size_t>(env::integer("MSSTREAM_MEMORY_LIMIT_BYTES", 0, 0));
  /// The hard limit as a fraction of the device's memory, above 0 and at most 1. Used if
  /// `limit_bytes` is 0.
  double limit_fraction =
      static_cast<double>(env::integer("MSSTREAM_MEMORY_LIMIT_PERCENT", 100, 1, 100)) / 100;
  /// The number of reserved bytes up to which an allocation takes fresh memory from the runtime
  /// rather than free memory for whose last uses its stream would wait. 0: the hard limit if one is
  /// set, otherwise 15 to 34% above the peak of memory in use.
  std::size_t soft_limit_bytes =
      static_cast<std::size_t>(env::integer("MSSTREAM_MEMORY_SOFT_LIMIT_BYTES", 0, 0));
  /// The number of bytes taken from the runtime at a time, to be cut into small blocks.
  std::size_t max_growth_bytes = static_cast<std::size_t>(
      env::integer("MSSTREAM_MAX_GROWTH_BYTES", std::int64_t{8} << 20U, 1 << 16));

  /// Whether all stream groups share the device's memory, or have pools of their own.
  PoolMode mode = env::choice<PoolMode>("MSSTREAM_MEMORY_POOLS",
                                        PoolMode::shared,
                                        {{"shared", PoolMode::shared},
                                         {"private", PoolMode::private_pools},
                                         {"private-one-limit", PoolMode::private_pools_one_limit}});
  /// The number of pools when pools are private. Group i uses pool i modulo this number; the
  /// default group uses the first pool.
  int private_pools = static_cast<int>(env::integer("MSSTREAM_MEMORY_PRIVATE_POOLS", 8, 1, 4096));
  /// The sharing of free pinned memory among stream groups. With `per_group`, the number of pools
  /// is `private_pools`.
  PinnedMode pinned_mode = env::choice<PinnedMode>(
      "MSSTREAM_PINNED_POOLS",
      PinnedMode::shared,
      {{"shared", PinnedMode::shared}, {"per_group", PinnedMode::per_group}});
  /// The hard limit on reserved pinned memory in bytes. 0: no limit.
  std::size_t pinned_limit_bytes =
      static_cast<std::size_t>(env::integer("MSSTREAM_PINNED_LIMIT_BYTES", 0, 0));
  /// The number of bytes of free pinned memory, with all copies complete, that may stay reserved
  /// when more is taken from the runtime. Memory above this number is released first, which waits
  /// for the device with some drivers. The pool therefore never reserves more than this number plus
  /// the memory in use by the program and by copies in flight. The excess that a peak leaves is
  /// also released, after many host waits, while the device is idle.
  std::size_t pinned_keep_bytes = static_cast<std::size_t>(
      env::integer("MSSTREAM_PINNED_KEEP_BYTES", std::int64_t{64} << 20U, 0));

  /// The number of reserved bytes above which free memory is released to the runtime after the host
  /// has waited for the device.
  std::size_t keep_bytes = static_cast<std::size_t>(
      env::integer("MSSTREAM_MEMORY_KEEP_BYTES", std::numeric_limits<std::int64_t>::max(), 0));
  /// The interval after which memory is released that exceeds the peak of memory in use during that
  /// interval by more than a quarter; checked after the host has waited for the device. 0: never.
  std::chrono::nanoseconds return_after =
      std::chrono::milliseconds(env::integer("MSSTREAM_MEMORY_RETURN_AFTER_MS", 0, 0));

  /// The longest time that an allocation waits, before it fails for lack of memory, for freed
  /// memory that the device still uses.
  std::chrono::milliseconds wait_for_frees{env::integer("MSSTREAM_MEMORY_WAIT_MS", 1000, 0)};
  /// The number of most recent events that a MemorySnapshot has. 0: no events are recorded.
  /// Recording an event takes a lock that all threads share.
  std::size_t history_events =
      static_cast<std::size_t>(env::integer("MSSTREAM_MEMORY_HISTORY", 0, 0, 1 << 28));

  /// A function that is called with the error, on the allocating thread, before OutOfMemory is
  /// thrown. A return value of true means that the function has released memory; the allocation is
  /// then tried again.
  std::function<bool(OutOfMemory const&)> on_out_of_memory = {};
};

}  // namespace msstream
