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

enum class AccessMode : std::uint8_t {
  read,
  write,
  /// Adds into it, as with atomic additions: in any order with others that do so.
  accumulate,
};

/// Bytes that an operation or the host uses; a write may read as well.
struct MemoryUse {
  void const* begin;
  std::size_t bytes;
  AccessMode mode;
  /// How often the memory had been given out when the use was declared; told by the runtime that
  /// keeps count.
  std::uint64_t owner = 0;
  /// The tracker keeps its order; false: the program has to.
  bool tracked = false;
};

/// How the work of an operation ended for the host: `failed` when it threw.
enum class Outcome : std::uint8_t { launched, failed };

/// What is known of an operation when it is issued, for runtimes that look on.
struct Operation {
  std::string name;  ///< with the name scopes around it
  std::string lane;  ///< the stream it goes to, such as "group 2 h2d"
  std::source_location issued_at;
  std::source_location scope_opened_at;  ///< the innermost stream scope; line 0: there is none
  std::vector<MemoryUse> uses;
  /// Of the launch of a graph: what was captured, in the order in which it was issued. Null: it is
  /// no such launch.
  std::shared_ptr<std::vector<std::shared_ptr<Operation const>> const> parts = nullptr;
};

using OperationHandle = std::shared_ptr<Operation const>;
using OperationParts = std::shared_ptr<std::vector<OperationHandle> const>;

/// Where an operation is in a tracker's order when it is issued.
struct TrackedOrder {
  void const* tracker;
  order::Position position;
  std::span<order::Position const> needed;  ///< what it is to follow
};

/// A runtime's stream or event as a number.
template <class Native>
[[nodiscard]] std::uintptr_t handle_of(Native native) noexcept {
  if constexpr (std::is_pointer_v<Native>) {
    return reinterpret_cast<std::uintptr_t>(native);
  } else {
    return static_cast<std::uintptr_t>(native);
  }
}
/// What reports call a stream that belongs to no group: "stream 0x…", after its native handle.
[[nodiscard]] std::string lane_of(std::uintptr_t stream);

}  // namespace msstream
