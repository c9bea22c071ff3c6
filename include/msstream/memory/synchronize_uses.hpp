// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/base/text.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/stream/inside_work.hpp>

#include <mutex>
#include <stdexcept>

namespace msstream {

/// Blocks the host until it may access the block's memory itself: to read, until the writes so far
/// are complete; to write, until the reads are too. Throws std::logic_error that names `call` where
/// something that is captured uses the memory, and inside work of a stream.
template <Runtime R>
void synchronize_uses(memory::Block<R>& block, AccessMode mode, char const* call) {
  if (!works(Mechanism::host_wait)) {
    return;
  }
  auto const& context = *(*block.device)->context;
  context.home.require_here();
  if constexpr (CapturingRuntime<R>) {
    auto const* const capture = memory::Capture<R>::current(context);
    if (capture != nullptr && capture->uses(block)) [[unlikely]] {
      auto const place = InsideWork::place();
      throw std::logic_error(
          text(call,
               place.empty() ? "" : text(" in '", place, "'"),
               ": the host waits for memory that is used in a capture, and what is captured has "
               "not run"));
    }
  }
  InsideWork::refuse_wait(call);
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
    context.tracker->synchronize(use);
  }
}

}  // namespace msstream
