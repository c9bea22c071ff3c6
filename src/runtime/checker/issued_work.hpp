// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "happens_before.hpp"
#include "interval_map.hpp"

#include <msstream/runtime/operation.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace msstream::detail {

struct IssuedWork;

/// An earlier access to some bytes.
struct PastAccess {
  std::shared_ptr<IssuedWork const> by;
  OperationHandle part;  ///< the part of a replay that made the access; null for the work's own
  AccessMode mode;
  std::uint64_t owner;  ///< the owner of the memory at the time of the access
  bool tracked;         ///< whether the tracker orders the access, and not the program
};

/// A use, and an earlier access that must precede it.
struct Conflict {
  PastAccess past;
  Interval where;
  OperationHandle part;
  MemoryUse use;
};

/// A piece of work, from the time of its issue.
struct IssuedWork {
  enum class State : std::uint8_t {
    issued,
    launched,
    given_up,  ///< the work was not launched, and never will be
  };

  OperationHandle operation;
  std::string lane;  ///< the name of the stream in reports
  Place place;
  std::shared_ptr<CheckClock const> clock;  ///< the work that precedes it, as issued
  std::uint64_t sequence = 0;               ///< its number among all work issued to any stream
  /// Whether the work is a copy, fill or graph launch outside every operation.
  bool past_issue = false;
  State state = State::issued;
  /// Accesses that must be launched before this work; empty once it is launched.
  std::vector<Conflict> follows = {};

  /// Returns whether the program has ordered the other work before this.
  [[nodiscard]] bool is_issued_after(IssuedWork const& other) const noexcept {
    return place.index == other.place.index ? other.place.number < place.number
                                            : clock->covers(other.place);
  }
};

}  // namespace msstream::detail
