// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "team.hpp"

#include <benchmark/benchmark.h>

#include <functional>

namespace benchmarks {

/// Two ways to do the same work: directly (`bare`), and through msstream (`ours`).
struct Sides {
  Team::Work bare;
  Team::Work ours;
  /// Lets the device become idle. Called after every batch, outside the timed part.
  std::function<void()> settle;
  /// The number of times that a batch of `ours` repeats the work. More than 1 if a batch would
  /// otherwise end before all threads run.
  int our_rounds = 1;
};

/// Times batches of both sides alternately, so that anything that slows the machine affects both,
/// and reports the medians over the batches in nanoseconds per operation: `bare_ns`, `ours_ns`,
/// `extra_ns` (ours - bare) and `ratio` (ours / bare). The time of a batch, from the first thread's
/// start to the last one's end, is divided by `operations`. The benchmark's own time is that of
/// `ours`.
void compare(benchmark::State& state, int threads, int operations, Sides const& sides);

}  // namespace benchmarks
