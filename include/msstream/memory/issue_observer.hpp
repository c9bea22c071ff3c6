// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/block.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/stream/stream_group.hpp>

#include <mutex>
#include <span>

namespace msstream {

/// An operation that has been put on a stream of a device.
template <Runtime R = DefaultRuntime>
struct IssuedOperation {
  char const* name;  ///< without name scopes, which are open still
  StreamGroup<R>& group;
  StreamKind kind;
  order::Position position;
  std::span<memory::Block<R>* const> reads;   ///< somebody holds them
  std::span<memory::Block<R>* const> writes;  ///< somebody holds them
};

/// Gets to know the operations of a device as they are issued, in the order of their accesses: it
/// is asked for its lock before an operation gets its number, and told under it. While there is
/// one, operations are issued one at a time.
template <Runtime R = DefaultRuntime>
class IssueObserver {
 public:
  IssueObserver() = default;
  IssueObserver(IssueObserver const&) = delete;
  IssueObserver& operator=(IssueObserver const&) = delete;
  virtual ~IssueObserver() = default;

  [[nodiscard]] std::mutex& order() noexcept { return order_; }
  virtual void issued(IssuedOperation<R> const& operation) = 0;

 private:
  std::mutex order_;
};

}  // namespace msstream
