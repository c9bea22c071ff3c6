// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>

#include <algorithm>
#include <concepts>
#include <mutex>
#include <source_location>
#include <utility>

namespace msstream {

/// Says, right after a tensor was written, that work on another group is going to need it: records
/// the event for that now. Without it the event is recorded when the need shows, and then stands
/// for all that the writing stream was given meanwhile as well. Never needed for safety. Blocks,
/// with launch threads, until the write has been launched.
template <Tracked T>
void publish(T const& tracked) {
  (*tracked.block()->device)->context->home.require_here();
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

/// Calls `function` in a StreamScope of `group`, then publishes what was issued meanwhile, on any
/// streams: later work of another group that needs some of it waits for that, and not for what the
/// same streams are given afterwards. What is captured is left as it is. Blocks, with launch
/// threads, until what was issued has been launched. Throws what `function` throws.
template <Runtime R, std::invocable F>
void issue_published(StreamGroup<R>& group,
                     F&& function,
                     std::source_location issued_at = std::source_location::current()) {
  auto& tracker = *group.context()->tracker;
  auto const before = tracker.newest_positions();
  {
    StreamScope const scope(group, {}, issued_at);
    std::forward<F>(function)();
  }
  for (auto const& position : tracker.newest_positions()) {
    bool const is_old =
        std::any_of(before.begin(), before.end(), [&](auto const& old) { return old == position; });
    if (!is_old && !tracker.is_captured(position)) {
      static_cast<void>(tracker.event_at(position));
    }
  }
}

}  // namespace msstream
