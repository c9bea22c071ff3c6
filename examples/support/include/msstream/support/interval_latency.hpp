// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::support {

/// How often which latency was seen so far, in buckets of which sixteen are a doubling.
using LatencyCounts = std::vector<std::uint64_t>;

/// Counts latencies such that those of an interval can be told from those before: by what the
/// counts at its ends differ in. Memory ordering: relaxed; record() from any thread.
class LatencyCounter {
 public:
  void record(std::chrono::nanoseconds latency) noexcept;
  /// Adds what has been counted so far; an empty sum is 0.
  void add_to(LatencyCounts& sum) const;

 private:
  friend struct IntervalLatency;
  static constexpr std::size_t kSubBuckets = 16;
  static constexpr std::size_t kBuckets = 40 * kSubBuckets;  ///< to 18 minutes

  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
};

/// Of the queries answered in an interval. The percentiles are at most a twentieth too high.
struct IntervalLatency {
  std::uint64_t count = 0;
  std::chrono::nanoseconds p50{0};
  std::chrono::nanoseconds p99{0};

  /// `before` may be empty: from the beginning.
  [[nodiscard]] static IntervalLatency between(LatencyCounts const& before,
                                               LatencyCounts const& after);
};

}  // namespace msstream::support
