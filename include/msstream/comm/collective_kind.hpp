// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace msstream::comm {

/// The kind of a collective.
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  all_to_all_counted,  ///< all_to_all() with counts on the device
  broadcast,
  barrier,
  send,
  receive,
};

/// Returns the name of the function, which is all_to_all for both kinds of it.
[[nodiscard]] constexpr std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_counted:
      return "all_to_all";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::barrier:
      return "barrier";
    case CollectiveKind::send:
      return "send";
    case CollectiveKind::receive:
      return "receive";
  }
  return "unknown";
}

/// Returns the kind with a name, which is never all_to_all_counted; nothing if there is none.
[[nodiscard]] std::optional<CollectiveKind> collective_kind_named(std::string_view name);

}  // namespace msstream::comm
