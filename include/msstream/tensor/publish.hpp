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

/// Records the event for a tensor that was just written and that work on another group is going to
/// need. Without it, the event is recorded when the need arises, and then also covers all work that
/// the writing stream was given since. Never needed for safety. If there are launch threads, blocks
/// until the write has been launched.
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

/// Calls `function` in a StreamScope of `group`, then publishes the work issued during the call, on
/// any stream: later work of another group that needs it does not wait for work that these streams
/// are given afterwards. Captured work is not published. If there are launch threads, blocks until
/// the issued work has been launched. Passes on exceptions of `function`.
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
