// SPDX-License-Identifier: Apache-2.0
#include "load/interval_latency.hpp"

#include <algorithm>
#include <cmath>

namespace msstream::load {

void LatencyCounter::record(std::chrono::nanoseconds latency) noexcept {
  auto const ns = static_cast<double>(std::max<std::int64_t>(latency.count(), 1));
  auto const bucket = static_cast<std::size_t>(std::log2(ns) * kSubBuckets);
  counts_[std::min(bucket, kBuckets - 1)].fetch_add(1, std::memory_order_relaxed);
}

void LatencyCounter::add_to(LatencyCounts& sum) const {
  sum.resize(kBuckets);
  for (std::size_t i = 0; i < kBuckets; ++i) {
    sum[i] += counts_[i].load(std::memory_order_relaxed);
  }
}

IntervalLatency IntervalLatency::between(LatencyCounts const& before, LatencyCounts const& after) {
  auto counts = after;
  IntervalLatency found;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] -= before.empty() ? 0 : before[i];
    found.count += counts[i];
  }
  auto const percentile = [&](double part) {
    auto const rank = part * static_cast<double>(found.count);
    std::uint64_t seen = 0;
    std::size_t bucket = 0;
    while (static_cast<double>(seen += counts[bucket]) < rank) {
      ++bucket;
    }
    auto const longest = std::exp2(static_cast<double>(bucket + 1) / LatencyCounter::kSubBuckets);
    return std::chrono::nanoseconds(std::llround(longest));
  };
  if (found.count > 0) {
    found.p50 = percentile(0.50);
    found.p99 = percentile(0.99);
  }
  return found;
}

}  // namespace msstream::load
