// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <concepts>
#include <cstddef>

namespace msstream {

/// A runtime whose device memory can also be allocated in pages, which are mapped at chosen
/// addresses and moved to others. All functions may block and are kept off hot paths. Addresses and
/// sizes are multiples of page_bytes().
///
/// - page_bytes: 0 if the machine does not support pages; the other functions must not be called
///   then.
/// - reserve_addresses: reserves addresses without memory. Costs no memory, so the range may be
///   far larger than the device's memory.
/// - map_pages: maps memory at addresses that have none. If it throws OutOfMemory, it has had no
///   effect.
/// - move_pages: maps the memory of some addresses at others that have none. Until leave_pages(),
///   the old addresses remain usable by work that was given to the device before. If it throws, it
///   has had no effect; throws OutOfMemory if there is no memory for its bookkeeping.
/// - leave_pages: removes the memory from the old addresses. All work on them must be complete.
/// - unmap_pages: frees the memory. All work on it must be complete.
///
/// The contents of memory that was mapped or moved are undefined.
template <class R>
concept PagedRuntime = Runtime<R> && requires(R runtime, void* at, std::size_t bytes) {
  { runtime.page_bytes() } -> std::same_as<std::size_t>;
  { runtime.reserve_addresses(bytes) } -> std::same_as<void*>;
  { runtime.release_addresses(at, bytes) }
  noexcept;
  {runtime.map_pages(at, bytes)};
  {runtime.move_pages(at, at, bytes)};
  { runtime.leave_pages(at, bytes) }
  noexcept;
  { runtime.unmap_pages(at, bytes) }
  noexcept;
};

}  // namespace msstream
