// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace msstream {

/// The way in which memory is used.
enum class AccessMode : std::uint8_t {
  read,
  write,
  /// An access that adds into the memory, as with atomic additions. Accumulations may run in any
  /// order with each other.
  accumulate,
};

/// A range of bytes that an operation or the host uses. A use of the mode `write` may read the
/// bytes as well.
struct MemoryUse {
  void const* begin;  ///< the first byte
  std::size_t bytes;  ///< their number
  AccessMode mode;    ///< read, write or accumulate
  /// The number of the allocation that had given out the memory when the use was declared. Set by a
  /// runtime that counts allocations; 0 if unknown.
  std::uint64_t owner = 0;
  /// Whether the dependency tracker orders the use. If false, the program has to order it.
  bool tracked = false;
};

/// The outcome of an operation's work on the host: `failed` if it threw.
enum class Outcome : std::uint8_t { launched, failed };

/// The description of an operation at the time of issue, for runtimes that observe operations.
struct Operation {
  std::string name;                ///< the name, prefixed by the enclosing name scopes
  std::string lane;                ///< the name of the operation's stream, such as "group 2 h2d"
  std::source_location issued_at;  ///< the line of the program that issued it
  std::source_location scope_opened_at;  ///< the innermost stream scope; line 0 if there is none
  std::vector<MemoryUse> uses;           ///< the memory that it declares
  /// The operations that were captured in a graph, in the order of issue, if the operation launches
  /// that graph; otherwise null.
  std::shared_ptr<std::vector<std::shared_ptr<Operation const>> const> parts = nullptr;
};

/// An operation that the runtime, its observers and graphs share.
using OperationHandle = std::shared_ptr<Operation const>;
/// The operations of a graph, in the order of issue.
using OperationParts = std::shared_ptr<std::vector<OperationHandle> const>;

/// The position of an operation in a tracker's order at the time of issue.
struct TrackedOrder {
  void const* tracker;                      ///< identifies the tracker that numbers it
  order::Position position;                 ///< of the operation
  std::span<order::Position const> needed;  ///< the positions that the operation must follow
};

/// Returns a runtime's native handle of a stream or event as a number.
template <class Native>
[[nodiscard]] std::uintptr_t handle_of(Native native) noexcept {
  if constexpr (std::is_pointer_v<Native>) {
    return reinterpret_cast<std::uintptr_t>(native);
  } else {
    return static_cast<std::uintptr_t>(native);
  }
}
/// Returns the name by which reports call a stream that belongs to no group: "stream 0x…", with the
/// native handle.
[[nodiscard]] std::string lane_of(std::uintptr_t stream);

}  // namespace msstream
