// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/env.hpp>
#include <msstream/memory/block_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace msstream {

struct AllocatorOptions {
  /// Hard limit on reserved device memory; 0: all that the device has.
  std::size_t limit_bytes =
      static_cast<std::size_t>(env::integer("MSSTREAM_MEMORY_LIMIT_BYTES", 0, 0));
  /// How much is taken from the runtime at a time, to be cut into small blocks.
  std::size_t max_growth_bytes = static_cast<std::size_t>(
      env::integer("MSSTREAM_MAX_GROWTH_BYTES", std::int64_t{8} << 20U, 1 << 16));
};

/// Device memory for all streams of a device, reused across streams without races: see
/// memory::BlockPool.
template <Runtime R>
class StreamAwareAllocator : public memory::BlockPool<R> {
 public:
  StreamAwareAllocator(std::shared_ptr<StreamContext<R>> const& context,
                       AllocatorOptions const& options)
      : memory::BlockPool<R>(
            context,
            memory::Space::device,
            {options.limit_bytes != 0 ? options.limit_bytes
                                      : context->runtime->memory_info().total_bytes,
             options.max_growth_bytes}) {}
};

/// Pinned host memory, which copies to and from the device need; a block is handed out again only
/// once the host knows that its copies are over, so the host may write it at once.
template <Runtime R>
class PinnedAllocator : public memory::BlockPool<R> {
 public:
  PinnedAllocator(std::shared_ptr<StreamContext<R>> const& context, AllocatorOptions const& options)
      : memory::BlockPool<R>(context,
                             memory::Space::pinned,
                             {std::numeric_limits<std::size_t>::max(), options.max_growth_bytes}) {}
};

}  // namespace msstream
