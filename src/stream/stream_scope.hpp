// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream/stream_group.hpp"

#include <msstream/base/detail/thread_guards.hpp>
#include <msstream/runtime/detail/sync_watch.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/trace/detail/stack_range.hpp>

#include <memory>
#include <optional>
#include <source_location>

namespace msstream::detail {

/// The state of one open StreamScope of a thread.
class OpenScope {
 public:
  OpenScope(std::shared_ptr<StreamGroup> group,
            StreamScopeOptions const& options,
            std::source_location opened_at);

  [[nodiscard]] std::shared_ptr<StreamGroup> const& group() const noexcept { return group_; }
  [[nodiscard]] bool includes_grad() const noexcept { return options_.include_grad; }
  [[nodiscard]] std::source_location opened_at() const noexcept { return opened_at_; }

  /// Returns the calling thread's innermost scope on a device, or null if it has none.
  [[nodiscard]] static OpenScope const* current(StreamContext const& context) noexcept;

 private:
  std::shared_ptr<StreamGroup> group_;
  StreamScopeOptions options_;
  std::source_location opened_at_;
  StackRange range_;
  std::optional<ConcurrentRegion> region_;  ///< nothing on a runtime that does not check
};

inline OpenScope const* OpenScope::current(StreamContext const& context) noexcept {
  auto const* scope = ThreadGuards<OpenScope>::innermost();
  while (scope != nullptr && (*scope)->group()->context().get() != &context) {
    scope = scope->outer();
  }
  return scope != nullptr ? &**scope : nullptr;
}

}  // namespace msstream::detail
