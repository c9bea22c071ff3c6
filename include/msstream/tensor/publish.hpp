// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/issue.hpp>

#include <mutex>

namespace msstream {

/// Says, right after a tensor was written, that work on another group is going to need it: records
/// the event for that now. Without it the event is recorded when the need shows, and then stands
/// for all that the writing stream was given meanwhile as well. Never needed for safety. Blocks,
/// with launch threads, until the write has been launched.
template <Tracked T>
void publish(T const& tracked) {
  order::PositionSet writes;
  {
    std::lock_guard const guard(tracked.block()->record.lock);
    writes = tracked.block()->record.log.writes();
  }
  auto& tracker = *(*tracked.block()->device)->context->tracker;
  for (auto const& position : writes) {
    static_cast<void>(tracker.event_at(position));
  }
}

}  // namespace msstream
