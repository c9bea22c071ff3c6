// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/query.hpp>
#include <msstream/support/interval_latency.hpp>
#include <msstream/support/load_plan.hpp>
#include <msstream/support/memory_taken.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace msstream::support {

/// How a load goes: of one interval, and at its end.
struct LoadSample {
  double at_s = 0;  ///< of the end, since the load began
  double queries_per_s = 0;
  IntervalLatency latency = {};
  std::uint64_t refused = 0;
  std::int64_t in_pool = 0;  ///< admitted and without an outcome
  std::int64_t waiting = 0;  ///< those of them for which there is no place in a launch
  MemoryTaken memory = {};
};

/// Cuts a load into intervals, each from the end of the last one. One thread.
class LoadIntervals {
 public:
  explicit LoadIntervals(serve::Clock::time_point begin) noexcept : begin_(begin), last_(begin) {}

  [[nodiscard]] serve::Clock::time_point last() const noexcept { return last_; }
  /// Ends an interval. `counts` and `refused` are since the load began. Memory and what is in the
  /// pool are left to fill in.
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

/// How long the next sample's interval is to be, `since_begin` after the load's begin: a second,
/// less in a short load, more in one of which that would be more than 600.
[[nodiscard]] inline std::chrono::duration<double> sample_period(
    LoadPlan const& plan, std::chrono::duration<double> since_begin) {
  constexpr std::chrono::duration<double> kLeast{0.01};
  constexpr std::chrono::duration<double> kUsual{1};
  constexpr int kFew = 10;
  constexpr int kMany = 600;
  if (plan.iterations > 0) {  // which may take any time
    return std::max(since_begin / kFew, kLeast);
  }
  return std::max(std::clamp(plan.length / kFew, kLeast, kUsual), plan.length / kMany);
}

}  // namespace msstream::support
