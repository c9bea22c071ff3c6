// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/function_ref.hpp"
#include "memory/blocks/hands.hpp"
#include "stream/stream_slot.hpp"

#include <cstddef>

namespace msstream::memory {

/// One request for a large block, and the results of the steps of its search so far.
struct LargeRequest {
  std::size_t bytes;   ///< a multiple of SizeBin::kGrainBytes
  std::size_t wanted;  ///< the bytes that will be in use at once, which may be fewer for a slab
  detail::StreamSlot& stream;
  /// Turns free small blocks into large ones, and returns whether there were any.
  detail::FunctionRef<bool()> return_slabs;
  /// The lock to hold while this thread has free memory that other threads then cannot find. Null
  /// if the thread has the lock already.
  Hands* hands = nullptr;
  bool is_slab = false;  ///< the block will be cut into small blocks
  bool asks = false;     ///< whether the search may query the runtime about all free memory
  bool lags = false;     ///< whether the device is far behind; false if threads contend
};

}  // namespace msstream::memory
