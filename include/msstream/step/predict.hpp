// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/sim_cost.hpp>
#include <msstream/step/step_groups.hpp>
#include <msstream/step/step_trace.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream {

/// The way in which a step is launched. eager: one thread issues its operations; graph: it is
/// replayed as one graph.
enum class StepLaunch : std::uint8_t { eager, graph };

/// The assumptions of a prediction.
struct StepModel {
  StepLaunch launch = StepLaunch::eager;
  bool merge_streams = false;
  /// The delays in a graph between the end of an operation and the start of the next one:
  /// `in_stream_ns` on the same stream, measured on one H200, and `across_streams_ns` on another
  /// stream that waits for it, fitted to the times of three models' steps on many groups of that
  /// H200.
  double in_stream_ns = 500;
  double across_streams_ns = 9000;
  /// The costs of calls on the issuing thread, and the number of multiprocessors. The durations of
  /// operations come from the trace, and so do the costs of their launches if it has them.
  SimCost cost = {};
};

/// Predicts the time of the traced step with its operations on the given groups: the nanoseconds
/// from its first call, or from the launch of the graph, to its last end.
///
/// The prediction is a simulation in virtual time (`Sim`). Operations take the time that they took
/// when traced, and waits are those that the tracker determines. Kernels share the multiprocessors;
/// a kernel occupies as many as the trace says, or an estimate from the bytes that it reads and
/// writes. Copies queue for the engine of their direction. Throws what streams_by() throws.
[[nodiscard]] double predict(StepTrace const& trace,
                             StepGroups const& groups,
                             StepModel const& model = {});

/// Predicts the time of the traced step with the groups that an assignment gives its operations;
/// see groups_by().
[[nodiscard]] double predict(StepTrace const& trace,
                             StreamAssignment const& assignment,
                             StepModel const& model = {});

}  // namespace msstream
