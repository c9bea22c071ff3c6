// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/sim_cost.hpp>
#include <msstream/step/step_groups.hpp>
#include <msstream/step/step_trace.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream {

/// How a step gets to the device. eager: one thread issues it; graph: it is replayed as one.
enum class StepLaunch : std::uint8_t { eager, graph };

/// What a prediction assumes.
struct StepModel {
  StepLaunch launch = StepLaunch::eager;
  bool merge_streams = false;
  /// Of a graph: from the end of an operation to the begin of the next one on its stream, which was
  /// measured on one H200, and of one on another stream that waits for it, which is what fits the
  /// times of three models' steps on many groups there.
  double in_stream_ns = 500;
  double across_streams_ns = 9000;
  /// What calls cost the issuing thread, and how many multiprocessors there are. How long
  /// operations take comes from the trace, and what launching them costs where that says it.
  SimCost cost = {};
};

/// How long the traced step would take with its operations on these groups, in ns from its first
/// call, or from the graph's launch, to its last end.
///
/// A simulation in virtual time (`Sim`): operations take the time that they took when traced, the
/// waits are those that the tracker finds. Kernels share the multiprocessors, and take the part
/// that the trace says, or as many as are likely by what they read and write; copies queue for the
/// engine of their direction. Throws what streams_by() does.
[[nodiscard]] double predict(StepTrace const& trace,
                             StepGroups const& groups,
                             StepModel const& model = {});

/// With the groups that an assignment gives; see groups_by().
[[nodiscard]] double predict(StepTrace const& trace,
                             StreamAssignment const& assignment,
                             StepModel const& model = {});

}  // namespace msstream
