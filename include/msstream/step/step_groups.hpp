// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/step_trace.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <cstddef>
#include <vector>

namespace msstream {

/// The group of each operation of a step, in the order of the trace; -1 is the default group.
using StepGroups = std::vector<int>;

/// Returns the groups on which the step was recorded.
[[nodiscard]] StepGroups recorded_groups(StepTrace const& trace);

/// Returns the groups that an assignment gives. An operation that no line matches keeps the group
/// on which it was recorded.
[[nodiscard]] StepGroups groups_by(StepTrace const& trace, StreamAssignment const& assignment);

/// Returns the stream of each operation of a step, numbered in the order of first use. A group has
/// one stream for each kind of work, or one stream if `merge_streams` is set. Throws
/// std::invalid_argument unless there is one group, -1 or more, for each operation.
[[nodiscard]] std::vector<std::size_t> streams_by(StepTrace const& trace,
                                                  StepGroups const& groups,
                                                  bool merge_streams = false);

}  // namespace msstream
