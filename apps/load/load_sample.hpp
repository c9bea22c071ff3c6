// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/interval_latency.hpp"
#include "load/load_plan.hpp"
#include "load/memory_taken.hpp"

#include <msstream/serve/query.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace msstream::load {

/// The figures of a load test in one interval, and at the end of it.
struct LoadSample {
  double at_s = 0;  ///< end of the interval, from the start of the test
  double queries_per_s = 0;
  IntervalLatency latency = {};
  std::uint64_t refused = 0;
  std::int64_t in_pool = 0;  ///< queries admitted and without an outcome
  std::int64_t waiting = 0;  ///< queries in the pool that fit into no launch
  MemoryTaken memory = {};
};

/// Divides a load test into consecutive intervals. For use by one thread.
class LoadIntervals {
 public:
  explicit LoadIntervals(serve::Clock::time_point begin) noexcept : begin_(begin), last_(begin) {}

  [[nodiscard]] serve::Clock::time_point last() const noexcept { return last_; }
  /// Ends an interval, and returns its sample. `counts` and `refused` are totals since the load
  /// began. The caller fills in the memory and the queries in the pool.
  [[nodiscard]] LoadSample next(serve::Clock::time_point now,
                                LatencyCounts counts,
                                std::uint64_t refused) {
    LoadSample sample{.at_s = std::chrono::duration<double>(now - begin_).count(),
                      .latency = IntervalLatency::between(counts_, counts),
                      .refused = refused - refused_};
    sample.queries_per_s = static_cast<double>(sample.latency.count) /
                           std::chrono::duration<double>(now - last_).count();
    last_ = now;
    counts_ = std::move(counts);
    refused_ = refused;
    return sample;
  }

 private:
  serve::Clock::time_point begin_;
  serve::Clock::time_point last_;
  LatencyCounts counts_;
  std::uint64_t refused_ = 0;
};

/// Returns the length of the interval of the next sample, at the time `since_begin` after the begin
/// of the load test: a second, less in a short test, more in a test that would otherwise have more
/// than 600 samples.
[[nodiscard]] inline std::chrono::duration<double> sample_period(
    LoadPlan const& plan, std::chrono::duration<double> since_begin) {
  constexpr std::chrono::duration<double> kLeast{0.01};
  constexpr std::chrono::duration<double> kUsual{1};
  constexpr int kFew = 10;
  constexpr int kMany = 600;
  if (plan.iterations > 0) {  // a test of a number of queries has no known length
    return std::max(since_begin / kFew, kLeast);
  }
  return std::max(std::clamp(plan.length / kFew, kLeast, kUsual), plan.length / kMany);
}

}  // namespace msstream::load
