// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace benchmarks {

namespace {

double median(std::vector<double>& values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void compare(benchmark::State& state, int threads, int operations, Sides const& sides) {
  Team team(threads);
  auto const batch = [&](Team::Work const& work, int rounds) {
    double const ns = team.run([&](int thread) {
      for (int round = 0; round < rounds; ++round) {
        work(thread);
      }
    });
    sides.settle();
    return ns / operations / rounds;
  };
  auto const batch_of_bare = [&] { return batch(sides.bare, 1); };
  auto const batch_of_ours = [&] { return batch(sides.ours, sides.our_rounds); };
  batch_of_bare();  // warms up caches, pools and lazily loaded kernels
  batch_of_ours();
  std::vector<double> bare;
  std::vector<double> ours;
  for ([[maybe_unused]] auto _ : state) {
    bare.push_back(batch_of_bare());
    ours.push_back(batch_of_ours());
    state.SetIterationTime(ours.back() * 1e-9);
  }
  double const bare_ns = median(bare);
  double const ours_ns = median(ours);
  state.counters["bare_ns"] = bare_ns;
  state.counters["ours_ns"] = ours_ns;
  state.counters["extra_ns"] = ours_ns - bare_ns;
  // Leaves out the ratio for an operation that launches nothing: its baseline is an empty loop, and
  // a ratio to it has no meaning.
  constexpr double kEmptyLoopNs = 10;
  if (bare_ns > kEmptyLoopNs) {
    state.counters["ratio"] = ours_ns / bare_ns;
  }
}

}  // namespace benchmarks
