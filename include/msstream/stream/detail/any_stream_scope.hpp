// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <source_location>

namespace msstream {

struct StreamScopeOptions {
  /// Whether the backward of operations that are issued inside the scope runs on the scope's group,
  /// too.
  bool include_grad = false;
};

namespace detail {

class StreamGroup;

/// The implementation of StreamScope<R>, compiled once for all runtimes.
class AnyStreamScope {
 public:
  AnyStreamScope(std::shared_ptr<StreamGroup> group,
                 StreamScopeOptions const& options,
                 std::source_location opened_at);
  ~AnyStreamScope();
  AnyStreamScope(AnyStreamScope const&) = delete;
  AnyStreamScope& operator=(AnyStreamScope const&) = delete;

  [[nodiscard]] std::shared_ptr<StreamGroup> const& group() const noexcept { return group_; }

 private:
  std::shared_ptr<StreamGroup> group_;
  void* entry_;  ///< an entry of ThreadGuards
};

}  // namespace detail
}  // namespace msstream
