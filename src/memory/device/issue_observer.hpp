// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"
#include "stream/stream_group.hpp"

#include <msstream/order/position.hpp>

#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace msstream::detail {

/// An operation that has been issued to a stream of a device.
struct IssuedOperation {
  char const* name;  ///< the name without its scopes, which are still open
  StreamGroup& group;
  StreamKind kind;
  order::Position position;
  std::span<memory::Block* const> reads;   ///< blocks kept alive during the call
  std::span<memory::Block* const> writes;  ///< blocks kept alive during the call
};

/// The part of an issued operation in a collective of several ranks.
struct IssuedCollective {
  order::Position position;  ///< of the operation
  std::string_view kind;     ///< the name of its function
  std::size_t bytes;         ///< that the rank gives
  std::string const& communicator;
  int ranks;
};

/// Observes the operations of a device as they are issued, in the order of their accesses. The
/// observer's lock is taken before an operation gets its number, and is still held when issued() is
/// called. While there is an observer, operations are issued one at a time.
class IssueObserver {
 public:
  IssueObserver() = default;
  IssueObserver(IssueObserver const&) = delete;
  IssueObserver& operator=(IssueObserver const&) = delete;
  virtual ~IssueObserver() = default;

  [[nodiscard]] std::mutex& order() noexcept { return order_; }
  virtual void issued(IssuedOperation const& operation) = 0;
  /// Says that an operation issued before is a collective. Called without the lock.
  virtual void was_collective(IssuedCollective const& collective) = 0;

 private:
  std::mutex order_;
};

}  // namespace msstream::detail
