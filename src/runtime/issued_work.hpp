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

/// Who used some bytes, when.
struct PastAccess {
  std::shared_ptr<IssuedWork const> by;
  OperationHandle part;  ///< of a replay: whose use it is; null: the work's own
  AccessMode mode;
  std::uint64_t owner;  ///< of the memory, at the time
  bool tracked;         ///< somebody else than the program keeps it in order
};

/// A use, and an earlier one that it must follow.
struct Conflict {
  PastAccess past;
  Interval where;
  OperationHandle part;
  MemoryUse use;
};

/// One piece of work, from when it is issued on.
struct IssuedWork {
  enum class State : std::uint8_t {
    issued,
    launched,
    given_up,  ///< it was not launched, and never will be
  };

  OperationHandle operation;
  std::string lane;  ///< how reports call the stream
  Place place;
  std::shared_ptr<CheckClock const> clock;  ///< what precedes it, as issued
  std::uint64_t sequence = 0;               ///< of all that was issued to any stream
  bool past_issue = false;                  ///< a copy or a fill of nobody's operation
  State state = State::issued;
  std::vector<Conflict> follows = {};  ///< what is to be launched before; empty once it is launched

  /// Whether the program has put the other work before this.
  [[nodiscard]] bool is_issued_after(IssuedWork const& other) const noexcept {
    return place.index == other.place.index ? other.place.number < place.number
                                            : clock->covers(other.place);
  }
};

}  // namespace msstream::detail
