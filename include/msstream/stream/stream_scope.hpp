// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/sync_watch.hpp>
#include <msstream/stream/stream_group.hpp>

#include <memory>
#include <source_location>

namespace msstream {

struct StreamScopeOptions {
  bool include_grad = false;  ///< the backward of what is issued inside runs on the same group
};

/// While the guard lives, what the calling thread issues goes to `group`. Scopes nest; the one that
/// was opened last counts, among those on the device of the operation's tensors.
template <Runtime R = DefaultRuntime>
class StreamScope {
 public:
  [[nodiscard("without a name the guard goes at once")]] explicit StreamScope(
      StreamGroup<R>& group,
      StreamScopeOptions const& options = {},
      std::source_location opened_at = std::source_location::current())
      : group_(group.shared_from_this()),
        options_(options),
        opened_at_(opened_at),
        outer_(innermost_),
        range_(group.name().c_str()),
        region_(*group_->context()->runtime, opened_at) {
    innermost_ = this;
  }
  ~StreamScope() {
    // The innermost, but for scopes that are kept as members of objects which go in another order.
    StreamScope const** link = &innermost_;
    while (*link != this) {
      link = &(*link)->outer_;
    }
    *link = outer_;
  }
  StreamScope(StreamScope const&) = delete;
  StreamScope& operator=(StreamScope const&) = delete;

  /// The calling thread's innermost scope on a device; null outside all.
  [[nodiscard]] static StreamScope const* current(StreamContext<R> const& context) noexcept {
    StreamScope const* scope = innermost_;
    while (scope != nullptr && scope->group_->context().get() != &context) {
      scope = scope->outer_;
    }
    return scope;
  }
  [[nodiscard]] std::shared_ptr<StreamGroup<R>> const& group() const noexcept { return group_; }
  [[nodiscard]] bool includes_grad() const noexcept { return options_.include_grad; }
  [[nodiscard]] std::source_location opened_at() const noexcept { return opened_at_; }

 private:
  static inline thread_local StreamScope const* innermost_ = nullptr;

  std::shared_ptr<StreamGroup<R>> group_;
  StreamScopeOptions options_;
  std::source_location opened_at_;
  mutable StreamScope const* outer_;
  trace::Range range_;
  [[no_unique_address]] ScopeRegion<R> region_;
};

}  // namespace msstream
