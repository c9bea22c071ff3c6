// SPDX-License-Identifier: Apache-2.0
#include "comm/collective.hpp"

#include <fmt/core.h>

#include <optional>
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
      return fmt::format(" with counts up to {}", what.capacity);
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
    case CollectiveKind::barrier:
      break;
  }
  return {};
}

}  // namespace

std::string to_string(Part const& part) {
  auto const elements = part.what.kind == CollectiveKind::barrier
                            ? std::string()
                            : fmt::format(" of {} {}", part.what.count, name_of(part.what.dtype));
  auto const& what = part.what;
  auto const places = what.input_place < 0 && what.output_place < 0
                          ? std::string()
                          : fmt::format(" from place {} to place {} of symmetric memory",
                                        what.input_place,
                                        what.output_place);
  return fmt::format("{}{}{}{} at {}:{}",
                     name_of(what.kind),
                     elements,
                     particulars(what),
                     places,
                     part.issued_at.file_name(),
                     part.issued_at.line());
}

std::size_t bytes_given(Collective const& what, int ranks) noexcept {
  bool const is_part = what.kind == CollectiveKind::reduce_scatter;  // `count` is of the output
  return what.kind == CollectiveKind::barrier
             ? 0
             : static_cast<std::size_t>(what.count) * bytes_of(what.dtype) *
                   static_cast<std::size_t>(is_part ? ranks : 1);
}

std::size_t bytes_for_each(Collective const& what, int ranks) noexcept {
  bool const is_whole =
      what.kind == CollectiveKind::all_reduce || what.kind == CollectiveKind::all_gather ||
      what.kind == CollectiveKind::broadcast || what.kind == CollectiveKind::barrier;
  return bytes_given(what, ranks) / static_cast<std::size_t>(is_whole ? 1 : ranks);
}

bool agree(Collective const& a, Collective const& b) noexcept {
  if (a.dtype != b.dtype || a.count != b.count) {
    return false;
  }
  if (is_between_two(a)) {
    return is_between_two(b) && a.kind != b.kind;
  }
  return a.kind == b.kind && a.reduction == b.reduction && a.peer == b.peer &&
         a.capacity == b.capacity && a.input_place == b.input_place &&
         a.output_place == b.output_place;
}

}  // namespace msstream::comm::detail

namespace msstream::comm {

std::optional<CollectiveKind> collective_kind_named(std::string_view name) {
  for (auto const kind : {CollectiveKind::all_reduce,
                          CollectiveKind::reduce_scatter,
                          CollectiveKind::all_gather,
                          CollectiveKind::all_to_all,
                          CollectiveKind::broadcast,
                          CollectiveKind::barrier,
                          CollectiveKind::send,
                          CollectiveKind::receive}) {
    if (name == name_of(kind)) {
      return kind;
    }
  }
  return std::nullopt;
}

}  // namespace msstream::comm
