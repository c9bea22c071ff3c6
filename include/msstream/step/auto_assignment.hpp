// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/sim.hpp>
#include <msstream/step/step_trace.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace msstream {

/// The group of each operation of a step, in the order of the trace; -1 is the default group.
using StepGroups = std::vector<int>;

/// Returns the stream group on which each operation of the step was recorded.
[[nodiscard]] StepGroups recorded_groups(StepTrace const& trace);

/// Returns the group that an assignment gives each operation of a step. An operation that no line
/// matches keeps the group on which it was recorded.
[[nodiscard]] StepGroups groups_by(StepTrace const& trace, StreamAssignment const& assignment);

/// Returns the stream of each operation of a step, numbered in the order of first use. A group has
/// one stream for each kind of work, or one stream if `merge_streams` is set. Collectives, and
/// operations that were recorded on the group of a communicator, are on a stream of the
/// communicator, whatever their group. Throws
/// std::invalid_argument unless there is one group, -1 or more, for each operation.
[[nodiscard]] std::vector<std::size_t> streams_by(StepTrace const& trace,
                                                  StepGroups const& groups,
                                                  bool merge_streams = false);

/// The numbers of event waits of a step whose operations are issued in the order of the trace.
struct StepWaits {
  /// The number of pairs of an operation and another stream on which it directly depends. Without
  /// DeviceOptions::reduce_waits as many waits are issued, plus those for memory that is reused.
  std::size_t hazards = 0;
  /// The number of `hazards` that are necessary waits, because neither another needed wait nor an
  /// earlier wait on the operation's own stream implies them. Equals the number of edges between
  /// streams in a captured step.
  std::size_t necessary = 0;
  /// The number of waits that the dependency tracker issues for an eager step with
  /// DeviceOptions::reduce_waits. The tracker records an event when one is first needed, and the
  /// event covers all work of its stream until then. An event may therefore save later waits, at
  /// the price of an order that the program did not require. (In a run, the tracker may save more
  /// waits for work that it knows to be complete.)
  std::size_t issued = 0;

  friend bool operator==(StepWaits const&, StepWaits const&) = default;
};

/// Counts the waits of a step whose operations run on the streams on which they were recorded.
[[nodiscard]] StepWaits minimal_waits(StepTrace const& trace);

/// Counts the waits of a step whose operations run on the streams of the given groups. Throws what
/// streams_by() throws.
[[nodiscard]] StepWaits minimal_waits(StepTrace const& trace,
                                      StepGroups const& groups,
                                      bool merge_streams = false);

/// The assumptions with which predict() predicts the time of a step.
struct StepModel {
  /// The way in which a step is launched. eager: one thread issues its operations; graph: the step
  /// is replayed as one graph.
  enum class Launch : std::uint8_t { eager, graph };

  Launch launch = Launch::eager;  ///< by one thread, or as a graph
  bool merge_streams = false;     ///< whether a group has one stream for all kinds of work
  /// The delays in a graph between the end of an operation and the start of the next one:
  /// `in_stream_ns` on the same stream, measured on one H200, and `across_streams_ns` on another
  /// stream that waits for it, fitted to the times of three models' steps on many groups of that
  /// H200.
  double in_stream_ns = 500;
  double across_streams_ns = 9000;  ///< after an operation of another stream
  /// The costs of calls on the issuing thread, and the number of multiprocessors. The durations of
  /// operations come from the trace, and so do the costs of their launches if the trace has them.
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

/// A choice of groups for the operations of a step, with predictions of the step's time.
struct AutoAssignment {
  struct Options {
    /// The way in which the step will be launched, and the costs of its calls.
    StepModel model = {};
    /// The number of calls of predict() after which the search for better groups ends. Each move of
    /// a unit of operations to another group costs one call.
    std::size_t most_predictions = 2000;
  };

  /// The chosen assignment in the format of StreamAssignment, with the predictions in a comment.
  /// Has no assignment lines if no better groups were found than those on which the step was
  /// recorded.
  std::string text = {};
  /// The groups that `text` assigns to the operations of the trace.
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
                                             AutoAssignment::Options const& options = {});

}  // namespace msstream
