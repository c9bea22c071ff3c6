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

/// An earlier access of some work to a range of memory.
struct PastAccess {
  std::shared_ptr<IssuedWork const> by;
  /// The captured operation that made the access in a replay; null if the work itself made it.
  OperationHandle part;
  AccessMode mode;
  std::uint64_t owner;  ///< the owner of the memory at the time of the access
  bool tracked;         ///< whether the tracker must order the access, not the program
};

/// A use of memory, and an earlier access that must come before it.
struct Conflict {
  PastAccess past;
  Interval where;
  OperationHandle part;
  MemoryUse use;
};

/// A piece of work on a stream, as the checker sees it from its issue on: an operation, a copy, a
/// fill or a graph launch.
struct IssuedWork {
  enum class State : std::uint8_t {
    issued,
    launched,
    given_up,  ///< the work was not launched, and never will be
  };

  OperationHandle operation;
  std::string lane;  ///< the name of the stream in reports
  Place place;
  std::shared_ptr<CheckClock const> clock;  ///< the work that precedes this work by the issue order
  std::uint64_t sequence = 0;               ///< the number of this work among all issued work
  /// Whether the work is a copy, fill or graph launch that is not part of an operation.
  bool past_issue = false;
  State state = State::issued;
  /// Accesses that must be launched before this work; empty once it is launched.
  std::vector<Conflict> follows = {};

  /// Returns whether the program has ordered the other work before this work.
  [[nodiscard]] bool is_issued_after(IssuedWork const& other) const noexcept {
    return place.index == other.place.index ? other.place.number < place.number
                                            : clock->covers(other.place);
  }
};

}  // namespace msstream::detail
