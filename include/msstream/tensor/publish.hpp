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

/// Publishes the work that is issued between the constructor and publish(): records an event for
/// each stream that received work.
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

/// Records an event now for the last write of a tensor that work on another group is going to use.
/// Without publish(), the event is recorded when that work is issued, and then also covers all work
/// that was issued to the writing stream in between. Never needed for safety. If there are launch
/// threads, blocks until the write has been launched.
template <Tracked T>
void publish(T const& tracked) {
  detail::publish_block(tracked.block());
}

/// Calls `function` in a StreamScope of `group`, then records events for the work issued during the
/// call, on any stream: later work of another group that depends on that work does not wait for
/// work that is issued to the same streams afterwards. Captured work is not published. If there are
/// launch threads, blocks until the issued work has been launched. Passes on exceptions of
/// `function`.
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
