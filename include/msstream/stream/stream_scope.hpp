// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/thread_guards.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/runtime/sync_watch.hpp>
#include <msstream/stream/stream_group.hpp>

#include <memory>
#include <source_location>
#include <utility>

namespace msstream {

struct StreamScopeOptions {
  /// Whether the backward of operations issued inside the scope runs on the same group.
  bool include_grad = false;
};

/// Sends the operations that the calling thread issues to `group`, while the guard lives. Scopes
/// nest: among those on the device of the operation's tensors, the one opened last applies.
///
/// A scope must end on the thread that opened it. If another thread destroys it, the destructor
/// writes both threads and the location where the scope was opened to the standard error stream,
/// and changes neither thread's scopes; the next issue() of the thread that opened it closes the
/// scope and throws std::logic_error.
template <Runtime R = DefaultRuntime>
class StreamScope {
 public:
  /// The state of one open scope on a thread.
  class Opened {
   public:
    Opened(std::shared_ptr<StreamGroup<R>> group,
           StreamScopeOptions const& options,
           std::source_location opened_at)
        : group_(std::move(group)),
          options_(options),
          opened_at_(opened_at),
          range_(group_->name().c_str()),
          region_(*group_->context()->runtime, opened_at) {}

    [[nodiscard]] std::shared_ptr<StreamGroup<R>> const& group() const noexcept { return group_; }
    [[nodiscard]] bool includes_grad() const noexcept { return options_.include_grad; }
    [[nodiscard]] std::source_location opened_at() const noexcept { return opened_at_; }

   private:
    std::shared_ptr<StreamGroup<R>> group_;
    StreamScopeOptions options_;
    std::source_location opened_at_;
    trace::StackRange range_;
    [[no_unique_address]] ScopeRegion<R> region_;
  };

  [[nodiscard("without a name the guard goes at once")]] explicit StreamScope(
      StreamGroup<R>& group,
      StreamScopeOptions const& options = {},
      std::source_location opened_at = std::source_location::current())
      : group_(group.shared_from_this()),
        entry_(Guards::open(opened_at, group_, options, opened_at)) {}
  ~StreamScope() { Guards::close(entry_, "StreamScope", group_->name()); }
  StreamScope(StreamScope const&) = delete;
  StreamScope& operator=(StreamScope const&) = delete;

  /// Returns the calling thread's innermost scope on a device, or null if it has none.
  [[nodiscard]] static Opened const* current(StreamContext<R> const& context) noexcept {
    auto const* scope = Guards::innermost();
    while (scope != nullptr && (*scope)->group()->context().get() != &context) {
      scope = scope->outer();
    }
    return scope != nullptr ? &**scope : nullptr;
  }
  [[nodiscard]] std::shared_ptr<StreamGroup<R>> const& group() const noexcept { return group_; }

 private:
  using Guards = ThreadGuards<Opened>;

  std::shared_ptr<StreamGroup<R>> group_;
  typename Guards::Entry* entry_;
};

MSSTREAM_COMPILED_ONCE(class StreamScope<DefaultRuntime>);

}  // namespace msstream
