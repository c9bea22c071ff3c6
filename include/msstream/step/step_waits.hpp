// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/step_groups.hpp>
#include <msstream/step/step_trace.hpp>

#include <cstddef>

namespace msstream {

/// The numbers of event waits of the operations of a step, issued in the order of the trace.
struct StepWaits {
  /// The number of pairs of an operation and another stream on which it directly depends. Without
  /// `reduce_waits` as many waits are issued, plus those for memory that is reused.
  std::size_t hazards = 0;
  /// The number of these waits that are necessary, because neither another needed wait nor an
  /// earlier wait on the operation's own stream implies them. Equals the number of edges between
  /// streams in a captured step.
  std::size_t necessary = 0;
  /// The number of waits that the tracker issues for an eager step with `reduce_waits`. The tracker
  /// records an event when one is first needed, and the event covers all work of its stream until
  /// then. It may therefore save later waits, at the price of an order that the program did not
  /// require. (The host may save more waits if it knows what is complete.)
  std::size_t issued = 0;

  friend bool operator==(StepWaits const&, StepWaits const&) = default;
};

/// Counts the waits with the operations on the streams on which the step was recorded.
[[nodiscard]] StepWaits minimal_waits(StepTrace const& trace);

/// Counts the waits with the operations on the streams of the given groups. Throws what
/// streams_by() throws.
[[nodiscard]] StepWaits minimal_waits(StepTrace const& trace,
                                      StepGroups const& groups,
                                      bool merge_streams = false);

}  // namespace msstream
