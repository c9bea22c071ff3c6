// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "team.hpp"

#include <benchmark/benchmark.h>

#include <functional>

namespace benchmarks {

/// Two ways of doing the same: directly, and through msstream.
struct Sides {
  Team::Work bare;
  Team::Work ours;
  /// Called outside the timed part after every batch: lets the device become idle.
  std::function<void()> settle;
};

/// Times batches of both sides in turn, so that whatever slows the machine meets both, and reports
/// the medians over the batches in nanoseconds an operation: `bare_ns`, `ours_ns`, `extra_ns` (ours
/// - bare) and `ratio` (ours / bare). With several threads the time is that of the whole team over
/// all its operations. The benchmark's own time is that of ours.
void compare(benchmark::State& state, int threads, int operations_per_thread, Sides const& sides);

}  // namespace benchmarks
