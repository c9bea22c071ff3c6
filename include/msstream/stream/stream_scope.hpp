// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/stream/stream_group.hpp>

#include <source_location>

namespace msstream {

/// A guard. While it lives, operations that the calling thread issues go to `group`. Scopes nest:
/// among the open scopes of the device of an operation's tensors, the one opened last applies.
///
/// A scope must end on the thread that opened it. If another thread destroys it, the destructor
/// writes both threads and the location where the scope was opened to the standard error stream,
/// and changes neither thread's scopes; the next issue() of the thread that opened it closes the
/// scope and throws std::logic_error.
template <Runtime R = DefaultRuntime>
class StreamScope {
 public:
  /// Opens the scope on the calling thread. `opened_at` is for reports.
  [[nodiscard("without a name the guard goes at once")]] explicit StreamScope(
      StreamGroup<R> const& group,
      StreamScopeOptions const& options = {},
      std::source_location opened_at = std::source_location::current())
      : body_(group.share_engine(), options, opened_at) {}
  StreamScope(StreamScope const&) = delete;
  StreamScope& operator=(StreamScope const&) = delete;

  /// Returns the group of the scope.
  [[nodiscard]] StreamGroup<R> group() const { return StreamGroup<R>(body_.group()); }

 private:
  detail::AnyStreamScope body_;
};

}  // namespace msstream
