// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/detail/position_set.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>

#include <concepts>
#include <memory>
#include <source_location>
#include <utility>

namespace msstream {

namespace detail {

class DependencyTracker;

void publish_block(memory::BlockRef const& block);

/// Publishes the work that is issued to a tracker between the constructor and publish().
class NewWork {
 public:
  explicit NewWork(std::shared_ptr<StreamGroup> const& group);
  NewWork(NewWork const&) = delete;
  NewWork& operator=(NewWork const&) = delete;
  void publish() const;

 private:
  std::shared_ptr<DependencyTracker> tracker_;
  order::PositionSet before_;
};

}  // namespace detail

/// Records the event for a tensor that was just written and that work on another group is going to
/// need. Without it, the event is recorded when the need arises, and then also covers all work that
/// the writing stream was given since. Never needed for safety. If there are launch threads, blocks
/// until the write has been launched.
template <Tracked T>
void publish(T const& tracked) {
  detail::publish_block(tracked.block());
}

/// Calls `function` in a StreamScope of `group`, then publishes the work issued during the call, on
/// any stream: later work of another group that needs it does not wait for work that these streams
/// are given afterwards. Captured work is not published. If there are launch threads, blocks until
/// the issued work has been launched. Passes on exceptions of `function`.
template <Runtime R, std::invocable F>
void issue_published(StreamGroup<R> const& group,
                     F&& function,
                     std::source_location issued_at = std::source_location::current()) {
  detail::NewWork const issued(group.share_engine());
  {
    StreamScope<R> const scope(group, {}, issued_at);
    std::forward<F>(function)();
  }
  issued.publish();
}

}  // namespace msstream
