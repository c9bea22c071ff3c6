// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/step_groups.hpp>
#include <msstream/step/step_trace.hpp>

#include <cstddef>

namespace msstream {

/// How many event waits the operations of a step take, issued in the trace's order.
struct StepWaits {
  /// One for each other stream that an operation directly needs something of. Without
  /// `reduce_waits` these are issued, and those for memory that is used again.
  std::size_t hazards = 0;
  /// Those of them that are necessary: no other needed wait and nothing before on the operation's
  /// own stream implies them. The edges between streams of a captured step's order.
  std::size_t necessary = 0;
  /// What the tracker issues of an eager step with `reduce_waits`. It records an event when one is
  /// first asked for, and such an event stands for all that its stream got until then: it may save
  /// later waits, at the price of an order that nobody asked for. (The host may save more by
  /// knowing what is complete.)
  std::size_t issued = 0;

  friend bool operator==(StepWaits const&, StepWaits const&) = default;
};

/// On the streams that the step was recorded on.
[[nodiscard]] StepWaits minimal_waits(StepTrace const& trace);

/// On those of other groups. Throws what streams_by() does.
[[nodiscard]] StepWaits minimal_waits(StepTrace const& trace,
                                      StepGroups const& groups,
                                      bool merge_streams = false);

}  // namespace msstream
