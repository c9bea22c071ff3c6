// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/function_ref.hpp"
#include "memory/blocks/hands.hpp"
#include "stream/stream_slot.hpp"

#include <cstddef>

namespace msstream::memory {

/// One request for a large block, and what its steps of the search have found out so far.
struct LargeRequest {
  std::size_t bytes;   ///< a multiple of SizeBin::kGrainBytes
  std::size_t wanted;  ///< the bytes that will be in use at once, which may be fewer for a slab
  detail::StreamSlot& stream;
  /// Turns free small blocks into large ones, and returns whether there were any.
  detail::FunctionRef<bool()> return_slabs;
  /// The lock that is held while this thread holds free memory that other threads then miss. Null
  /// if the thread has it already.
  Hands* hands = nullptr;
  bool is_slab = false;  ///< the block is cut into small blocks, and stays
  bool asks = false;     ///< whether the host has time to ask about all free memory
  bool lags = false;     ///< whether the device lags behind the host; false if threads contend
};

}  // namespace msstream::memory
