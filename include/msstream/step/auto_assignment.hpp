// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/predict.hpp>
#include <msstream/step/step_groups.hpp>
#include <msstream/step/step_trace.hpp>

#include <cstddef>
#include <string>

namespace msstream {

struct AutoAssignmentOptions {
  /// How the step will be launched, and what that costs.
  StepModel model = {};
  /// After so many no more units are moved, each at the price of a predict().
  std::size_t most_predictions = 2000;
};

/// A choice of groups for a step, and what it is expected to bring.
struct AutoAssignment {
  /// As a StreamAssignment reads it, with the predictions in a comment. Without any line where the
  /// groups that the step was recorded on are the best that was found.
  std::string text = {};
  /// What the text gives the operations of the trace.
  StepGroups groups = {};
  double predicted_ns = 0;  ///< with these groups; never more than the other two
  double one_group_ns = 0;  ///< with all operations on one group
  double recorded_ns = 0;   ///< with the groups that the step was recorded on
};

/// Chooses groups from 0 to `groups` - 1 for the operations of a step, by name: operations of one
/// name share a group.
///
/// The step is cut into units: by the outermost name scope, by the two outermost, and so on down to
/// single names. For each cut, units go where their operations are expected to end first, the
/// longest path to the end of the step first, waits and launches counted (Topcuoglu, Hariri, Wu:
/// HEFT, 2002, with units in place of tasks), in turn, or where the least time is spent. From the
/// best of these, of one group and of the recorded groups, units are then moved one at a time, the
/// largest first, as long as predict() finds it better, or the same with fewer waits, and there are
/// `most_predictions` left. What is not
/// predicted to be better than one group stays on one. Deterministic. Throws std::invalid_argument
/// for `groups` outside 1 to 256, and for a name that is too long to be written as an expression.
[[nodiscard]] AutoAssignment auto_assignment(StepTrace const& trace,
                                             int groups,
                                             AutoAssignmentOptions const& options = {});

}  // namespace msstream
