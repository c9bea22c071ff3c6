// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/links.hpp>
#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/step_trace.hpp>

#include <string>
#include <vector>

namespace msstream {

/// The assumptions with which predict() predicts a step on several ranks. docs/scaling.md explains
/// them.
struct RanksModel {
  int ranks = 1;  ///< that train together, at least 1
  /// The rows of each rank, as a multiple of those of the traced rank. 1 is weak scaling: each rank
  /// has as many. The ranks of the trace over `ranks` is strong scaling: all together have as many.
  double rows = 1;
  /// The part of an operation's time that does not depend on its rows, as of a kernel without work.
  /// The default was measured on one H200.
  double fixed_ns = 1790;
  /// Names of operations whose time does not depend on the rows at all, such as `update_dense`, the
  /// update of dense parameters; `*` stands for any characters. Each matches an operation.
  std::vector<std::string> fixed = {};
  /// How much later than the others the last rank begins its step.
  double skew_ns = 0;
  /// The way in which the step is launched, with the groups of the recording.
  StepModel step = {};
};

/// A predicted step of several equal ranks.
struct RanksPrediction {
  double step_ns = 0;         ///< from the begin of the first rank to the end of the last one
  double compute_ns = 0;      ///< the step of one rank if collectives took no time
  double collectives_ns = 0;  ///< the sum of the times of all collectives, each alone on the link

  /// The time that collectives and skew add to the step. It can be a little below 0, where kernels
  /// that wait for a collective then have more of the device to themselves.
  [[nodiscard]] double exposed_ns() const noexcept { return step_ns - compute_ns; }
  /// compute_ns / step_ns; 1 for a step that takes no time. Of weak scaling, the efficiency.
  [[nodiscard]] double computing() const noexcept { return step_ns > 0 ? compute_ns / step_ns : 1; }
};

/// Predicts the time of a step on `model.ranks` ranks from the trace of one rank, which was
/// recorded on any number of ranks, and from the speeds of collectives.
///
/// All ranks do the same as the traced one, and come to each collective at once. A collective takes
/// the time of comm::collective_ns() for the bytes in the trace, not the time in the trace.
/// Collectives of one communicator run in their order; those of several run at once and share the
/// link equally, but in a graph they run in the order of the trace. Meanwhile kernels lack the
/// multiprocessors of the links. Everything else is as in predict() on one device.
///
/// With `rows`, the time of an operation beyond `fixed_ns` is multiplied by it, unless `fixed`
/// matches its name, and so are the bytes of all_to_all, all_gather, send and receive, which are
/// taken to carry samples. The bytes of the other kinds, which are taken to carry parameters, and
/// the launches of the host stay.
///
/// Throws what comm::collective_ns() throws, and std::invalid_argument for rows that are not
/// more than 0, times that are negative or not finite, a pattern in `fixed` that matches no
/// operation, a trace that lacks the bytes of collectives (of an earlier version) or has those of
/// different numbers of ranks, and several ranks with a trace without collectives.
[[nodiscard]] RanksPrediction predict(StepTrace const& trace,
                                      comm::Links const& links,
                                      RanksModel const& model);

}  // namespace msstream
