// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <vector>

namespace benchmarks {

using Clock = std::chrono::steady_clock;

/// Returns the median of times, of which there is at least one.
[[nodiscard]] inline double median(std::vector<double> times) {
  auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

[[nodiscard]] inline double ns_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

/// The times of one round of each batch, in nanoseconds.
struct RoundTimes {
  std::vector<double> device;
  std::vector<double> host;  ///< until the host has issued the round
};

/// Times a batch of rounds, from the common start of all ranks to the end of the last one: each
/// rank calls `issue()` for each round, then `wait()`.
template <class Issue, class Wait>
void time_batch(
    std::barrier<>& all, int rounds, RoundTimes& times, Issue const& issue, Wait const& wait) {
  all.arrive_and_wait();
  auto const begin = Clock::now();
  for (int i = 0; i < rounds; ++i) {
    issue();
  }
  double const host_ns = ns_since(begin);
  wait();
  all.arrive_and_wait();
  times.device.push_back(ns_since(begin) / rounds);
  times.host.push_back(host_ns / rounds);
}

/// Takes a rank out of the barrier, so that the others do not wait for one that has thrown.
struct Leaving {
  std::barrier<>& all;
  ~Leaving() { all.arrive_and_drop(); }
};

}  // namespace benchmarks
