// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <concepts>
#include <cstddef>

namespace msstream {

/// A runtime whose device memory can also be had in pages, which are put at addresses of one's
/// choice and moved to others. All functions may block and are kept off hot paths; addresses and
/// sizes are multiples of page_bytes().
///
/// - page_bytes: 0 where the machine cannot do it; then the others must not be called.
/// - reserve_addresses: addresses without memory; costs none, so it may be far more than there is.
/// - map_pages: puts memory behind addresses that have none. Throws OutOfMemory, and then has done
/// nothing.
/// - move_pages: puts the memory from behind some addresses behind others that have none. The old
/// addresses can be used on until leave_pages() by work that was given to the device before. When
/// it throws, OutOfMemory where there is none to note it, it has done nothing.
/// - leave_pages: the old addresses have no memory any more. All work at them must be over.
/// - unmap_pages: gives the memory back. All work on it must be over.
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
