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
  /// How often ours does it in a batch: more than once where a batch would be over before all
  /// threads run.
  int our_rounds = 1;
};

/// Times batches of both sides in turn, so that whatever slows the machine meets both, and reports
/// the medians over the batches in nanoseconds an operation: `bare_ns`, `ours_ns`, `extra_ns` (ours
/// - bare) and `ratio` (ours / bare). `operations` is what the time of one batch, from the first
/// thread's start to the last one's end, is divided by. The benchmark's own time is that of ours.
void compare(benchmark::State& state, int threads, int operations, Sides const& sides);

}  // namespace benchmarks
