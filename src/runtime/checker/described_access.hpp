// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "access_history.hpp"
#include "issued_work.hpp"

#include <msstream/runtime/checker.hpp>

#include <fmt/core.h>

#include <string>
#include <string_view>

/// Functions that describe accesses in reports: the operation's name and stream, the range of
/// memory, and the source locations.
namespace msstream::detail {

inline Interval interval_of(MemoryUse const& use) {
  return Interval::of(use.begin, use.bytes);
}

inline std::string_view verb_of(AccessMode mode) {
  return mode == AccessMode::read ? "reads" : mode == AccessMode::write ? "writes" : "adds into";
}
inline std::string_view past_verb(AccessMode mode) {
  return mode == AccessMode::read    ? "may still read"
         : mode == AccessMode::write ? "may still write"
                                     : "may still add into";
}

/// Returns the name of an operation. If `part` is not null, appends the name of that part of a
/// replayed graph.
inline std::string name_of(Operation const& operation, OperationHandle const& part) {
  return part == nullptr ? operation.name : fmt::format("{}/{}", operation.name, part->name);
}

inline CheckReport::Access describe(Operation const& operation, AccessMode mode, Interval range) {
  return {operation.name,
          operation.lane,
          mode,
          range.begin,
          range.end - range.begin,
          operation.issued_at,
          operation.scope_opened_at};
}
inline CheckReport::Access describe(IssuedWork const& work,
                                    OperationHandle const& part,
                                    AccessMode mode,
                                    Interval range) {
  auto access = describe(part != nullptr ? *part : *work.operation, mode, range);
  access.operation = name_of(*work.operation, part);
  access.lane = work.lane;
  return access;
}
inline CheckReport::Access describe(PastAccess const& past, Interval range) {
  return describe(*past.by, past.part, past.mode, range);
}
inline std::string name_of(PastAccess const& past) {
  return name_of(*past.by->operation, past.part);
}

/// Returns the use declared by the operation that contains the range, preferably one that writes.
/// Returns null if there is none.
inline MemoryUse const* declared_use_of(Operation const& operation, Interval range) {
  MemoryUse const* found = nullptr;
  for (auto const& use : operation.uses) {
    bool const names_more = found == nullptr || use.mode != AccessMode::read;
    if (names_more && interval_of(use).contains(range)) {
      found = &use;
    }
  }
  return found;
}

}  // namespace msstream::detail
