// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/memory/device.hpp>

#include <mutex>

namespace msstream {

/// Blocks the host until it may access the block's memory itself: to read, until the writes so far
/// are complete; to write, until the reads are too.
template <Runtime R>
void synchronize_uses(memory::Block<R>& block, AccessMode mode) {
  if (!works(Mechanism::host_wait)) {
    return;
  }
  order::PositionSet needed;
  {
    std::lock_guard const guard(block.record.lock);
    if (mode == AccessMode::read) {
      block.record.log.add_hazards_of_read(needed);
    } else {
      block.record.log.add_hazards_of_write(needed);
    }
  }
  for (auto const& use : needed) {
    block.device->context->tracker->synchronize(use);
  }
}

}  // namespace msstream
