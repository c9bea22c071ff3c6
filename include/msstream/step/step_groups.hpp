// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/step_trace.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <cstddef>
#include <vector>

namespace msstream {

/// A group for each operation of a step, in the trace's order; -1 is the default group.
using StepGroups = std::vector<int>;

/// Those that the step was recorded on.
[[nodiscard]] StepGroups recorded_groups(StepTrace const& trace);

/// Those that an assignment gives; an operation that no line matches stays where it was recorded.
[[nodiscard]] StepGroups groups_by(StepTrace const& trace, StreamAssignment const& assignment);

/// The streams that the operations of a step go to, numbered as they come: one for each kind of
/// work of a group, or one a group where streams are merged. Throws std::invalid_argument unless
/// there is a group for each operation, -1 or more.
[[nodiscard]] std::vector<std::size_t> streams_by(StepTrace const& trace,
                                                  StepGroups const& groups,
                                                  bool merge_streams = false);

}  // namespace msstream
