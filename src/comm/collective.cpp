// SPDX-License-Identifier: Apache-2.0
#include "comm/collective.hpp"

#include <fmt/core.h>

#include <string_view>

namespace msstream::comm::detail {
namespace {

/// Returns what a collective has besides its elements, such as " (sum)" or " from rank 2".
[[nodiscard]] std::string particulars(Collective const& what) {
  switch (what.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      return fmt::format(" ({})", name_of(what.reduction));
    case CollectiveKind::broadcast:
    case CollectiveKind::receive:
      return fmt::format(" from rank {}", what.peer);
    case CollectiveKind::send:
      return fmt::format(" to rank {}", what.peer);
    case CollectiveKind::all_to_all_counted:
      return fmt::format(" with counts up to {}{}",
                         what.capacity,
                         what.place < 0 ? "" : fmt::format(" to symmetric place {}", what.place));
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
    case CollectiveKind::barrier:
      break;
  }
  return {};
}

}  // namespace

char const* name_of(CollectiveKind kind) {
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

std::string to_string(Part const& part) {
  auto const elements = part.what.kind == CollectiveKind::barrier
                            ? std::string()
                            : fmt::format(" of {} {}", part.what.count, name_of(part.what.dtype));
  return fmt::format("{}{}{} at {}:{}",
                     name_of(part.what.kind),
                     elements,
                     particulars(part.what),
                     part.issued_at.file_name(),
                     part.issued_at.line());
}

bool agree(Collective const& a, Collective const& b) noexcept {
  if (a.dtype != b.dtype || a.count != b.count) {
    return false;
  }
  if (is_between_two(a)) {
    return is_between_two(b) && a.kind != b.kind;
  }
  return a.kind == b.kind && a.reduction == b.reduction && a.peer == b.peer &&
         a.capacity == b.capacity && a.place == b.place;
}

}  // namespace msstream::comm::detail
