// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/predict.hpp>
#include <msstream/step/step_groups.hpp>
#include <msstream/step/step_trace.hpp>

#include <cstddef>
#include <string>

namespace msstream {

struct AutoAssignmentOptions {
  /// The way in which the step will be launched, and its costs.
  StepModel model = {};
  /// The number of calls of predict() after which no more units are moved. Each move costs one
  /// call.
  std::size_t most_predictions = 2000;
};

/// A choice of groups for the operations of a step, with predictions of the step's time.
struct AutoAssignment {
  /// The assignment in the format of StreamAssignment, with the predictions in a comment. Without
  /// assignment lines if the groups on which the step was recorded are the best that were found.
  std::string text = {};
  /// The groups that the text assigns to the operations of the trace.
  StepGroups groups = {};
  double predicted_ns = 0;  ///< with these groups; at most the other two
  double one_group_ns = 0;  ///< with all operations on one group
  double recorded_ns = 0;   ///< with the groups of the recording
};

/// Chooses groups from 0 to `groups` - 1 for the operations of a step, by name: operations with the
/// same name share a group.
///
/// The step is cut into units: by the outermost name scope, by the two outermost scopes, and so on
/// down to single names. For each cut, units are assigned in three ways, to 2, 4, 8 … and at most
/// `groups` groups: by list scheduling, to the group where their first operation is expected to end
/// first, counting waits and launches (Topcuoglu, Hariri, Wu: HEFT, 2002, with units instead of
/// tasks; operations in the order of their longest paths to the end of the step, and in the order
/// of issue); round-robin; and to the group with the least time so far. The best of these
/// assignments, of one group and of the recorded groups is then improved by moves of one unit at a
/// time, the units with the most time first. A move is kept if predict() finds it faster, or as
/// fast with fewer waits. Moves end when none helps, or after `most_predictions`.
///
/// If nothing is predicted to be faster than one group, the result is one group. Deterministic.
/// Throws std::invalid_argument for `groups` outside 1 to 256, and for a name that is too long for
/// an expression of a StreamAssignment.
[[nodiscard]] AutoAssignment auto_assignment(StepTrace const& trace,
                                             int groups,
                                             AutoAssignmentOptions const& options = {});

}  // namespace msstream
