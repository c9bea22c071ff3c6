// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "memory/device/device_state.hpp"
#include "stream/inside_work.hpp"

#include <fmt/core.h>

#include <mutex>
#include <stdexcept>

namespace msstream::detail {

/// Returns the uses so far that the host must wait for before it accesses the block's memory
/// itself: the writes before it reads, the writes and reads before it writes. Throws
/// std::logic_error, with `call` in its message, if captured work uses the memory, or if called
/// inside the work of a stream.
[[nodiscard]] inline order::PositionSet uses_to_await(memory::Block& block,
                                                      AccessMode mode,
                                                      char const* call) {
  if (!works(Mechanism::host_wait)) {
    return {};
  }
  auto const& context = *(*block.device)->context;
  context.home.require_here();
  auto const* const capture = OpenCapture::current(context);
  if (capture != nullptr && capture->uses(block)) [[unlikely]] {
    auto const place = InsideWork::place();
    throw std::logic_error(
        fmt::format("{}{}: the host waits for memory that is used in a capture, and what is "
                    "captured has not run",
                    call,
                    place.empty() ? "" : fmt::format(" in '{}'", place)));
  }
  InsideWork::refuse_wait(call);
  order::PositionSet needed;
  std::lock_guard const guard(block.record.lock);
  block.record.add_hazards(mode, needed);
  return needed;
}

/// Blocks the host until it may access the block's memory itself: to read after all writes, to
/// write after all writes and reads. Rethrows failures of the uses. Throws std::logic_error if
/// captured work uses the memory, or if called inside the work of a stream.
inline void synchronize_uses(memory::Block& block, AccessMode mode, char const* call) {
  for (auto const& use : uses_to_await(block, mode, call)) {
    (*block.device)->context->tracker->synchronize(use);
  }
}

}  // namespace msstream::detail
