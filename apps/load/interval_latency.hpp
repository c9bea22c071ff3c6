// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::load {

/// The counts of a histogram of latencies, one for each bucket. There are sixteen buckets for each
/// doubling of the latency.
using LatencyCounts = std::vector<std::uint64_t>;

/// A histogram of latencies that is read while it is filled. The difference of its counts at the
/// ends of an interval gives the latencies of that interval. Memory ordering is relaxed; any thread
/// may call record().
class LatencyCounter {
 public:
  void record(std::chrono::nanoseconds latency) noexcept;
  /// Adds the counts so far to `sum`. An empty `sum` counts as zeros.
  void add_to(LatencyCounts& sum) const;

 private:
  friend struct IntervalLatency;
  static constexpr std::size_t kSubBuckets = 16;
  static constexpr std::size_t kBuckets = 40 * kSubBuckets;  ///< up to 18 minutes

  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
};

/// The latencies of the queries answered in an interval. The percentiles are at most a twentieth
/// too high.
struct IntervalLatency {
  std::uint64_t count = 0;
  std::chrono::nanoseconds p50{0};
  std::chrono::nanoseconds p99{0};

  /// Returns the latencies that were counted between two readings of a LatencyCounter. If `before`
  /// is empty, the interval starts at the beginning.
  [[nodiscard]] static IntervalLatency between(LatencyCounts const& before,
                                               LatencyCounts const& after);
};

}  // namespace msstream::load
