// SPDX-License-Identifier: Apache-2.0
#include <msstream/serve/pool_counts.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace msstream::serve {

std::size_t LatencyHistogram::bucket_of(std::uint64_t ns) noexcept {
  if (ns < kSubBuckets) {
    return static_cast<std::size_t>(ns);
  }
  int const bits = static_cast<int>(std::bit_width(ns)) - 1;  // 2^bits <= ns
  auto const sub = (ns >> static_cast<unsigned>(bits - kSubBits)) - kSubBuckets;
  auto const bucket = static_cast<std::uint64_t>(bits - kSubBits + 1) * kSubBuckets + sub;
  return std::min<std::size_t>(bucket, kBuckets - 1);
}

std::uint64_t LatencyHistogram::longest_in(std::size_t bucket) noexcept {
  if (bucket < kSubBuckets) {
    return bucket;
  }
  auto const shift = static_cast<unsigned>(bucket / kSubBuckets - 1);
  return ((bucket % kSubBuckets + kSubBuckets + 1) << shift) - 1;
}

void LatencyHistogram::record(std::chrono::nanoseconds duration) noexcept {
  auto const ns = static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
  counts_[bucket_of(ns)].fetch_add(1, std::memory_order_relaxed);
  total_ns_.fetch_add(ns, std::memory_order_relaxed);
  raise_max(ns);
}

void LatencyHistogram::add(LatencyHistogram const& other) noexcept {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    counts_[i].fetch_add(other.counts_[i].load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  }
  total_ns_.fetch_add(other.total_ns_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  raise_max(other.max_ns_.load(std::memory_order_relaxed));
}

void LatencyHistogram::raise_max(std::uint64_t ns) noexcept {
  auto most = max_ns_.load(std::memory_order_relaxed);
  while (most < ns && !max_ns_.compare_exchange_weak(most, ns, std::memory_order_relaxed)) {
  }
}

LatencyHistogram::Summary LatencyHistogram::summary() const noexcept {
  std::array<std::uint64_t, kBuckets> counts;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    counts[i] = counts_[i].load(std::memory_order_relaxed);
    total += counts[i];
  }
  if (total == 0) {
    return {};
  }
  auto const max = max_ns_.load(std::memory_order_relaxed);
  auto const percentile = [&](double part) {
    auto const rank = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(total)));
    std::uint64_t seen = 0;
    std::size_t bucket = 0;
    while ((seen += counts[bucket]) < rank) {
      ++bucket;
    }
    return std::chrono::nanoseconds(bucket == kBuckets - 1 ? max
                                                           : std::min(longest_in(bucket), max));
  };
  return {.count = total,
          .mean = std::chrono::nanoseconds(total_ns_.load(std::memory_order_relaxed) / total),
          .p50 = percentile(0.50),
          .p95 = percentile(0.95),
          .p99 = percentile(0.99),
          .max = std::chrono::nanoseconds(max)};
}

}  // namespace msstream::serve
