// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_fixture.hpp"

#include <msstream/serve/pool_counts.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace msstream::serve {
namespace {

using std::chrono::nanoseconds;

TEST(LatencyHistogram, of_nothing_is_zero) {
  auto const summary = LatencyHistogram().summary();
  EXPECT_EQ(summary.count, 0U);
  EXPECT_EQ(summary.max, nanoseconds(0));
}

TEST(LatencyHistogram, percentiles_are_at_most_a_sixteenth_too_high) {
  ops::kernels::testing::Random random;
  SCOPED_TRACE(fmt::format("seed {}", random.seed()));
  for (int round = 0; round < 200; ++round) {
    LatencyHistogram histogram;
    std::vector<std::int64_t> all;
    auto const count = random.integer(1, 300);
    for (std::int64_t i = 0; i < count; ++i) {
      // Draws durations from 1 ns to 1.5 minutes, equally many of each order of magnitude.
      all.push_back(static_cast<std::int64_t>(std::exp(random.real(0, 25.2F))));
      histogram.record(nanoseconds(all.back()));
    }
    std::sort(all.begin(), all.end());
    auto const summary = histogram.summary();
    auto const expect_near = [&](nanoseconds told, double part) {
      auto const rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(count)));
      auto const exact = all[rank - 1];
      EXPECT_GE(told.count(), exact);
      EXPECT_LE(told.count(), exact + exact / 16);
    };
    expect_near(summary.p50, 0.50);
    expect_near(summary.p95, 0.95);
    expect_near(summary.p99, 0.99);
    EXPECT_EQ(summary.max.count(), all.back());
    EXPECT_EQ(summary.count, all.size());
  }
}

TEST(LatencyHistogram, can_be_added_up) {
  LatencyHistogram fast;
  LatencyHistogram slow;
  for (int i = 0; i < 99; ++i) {
    fast.record(nanoseconds(10));
  }
  slow.record(nanoseconds(1010));
  fast.add(slow);
  auto const summary = fast.summary();
  EXPECT_EQ(summary.count, 100U);
  EXPECT_EQ(summary.p99, nanoseconds(10));
  EXPECT_EQ(summary.max, nanoseconds(1010));
  EXPECT_EQ(summary.mean, nanoseconds(20));
  EXPECT_EQ(slow.summary().count, 1U);
}

TEST(LatencyHistogram, what_is_out_of_range_is_in_the_outer_buckets) {
  LatencyHistogram histogram;
  histogram.record(nanoseconds(-5));
  EXPECT_EQ(histogram.summary().p50, nanoseconds(0));
  histogram.record(std::chrono::hours(10));
  EXPECT_EQ(histogram.summary().p99, nanoseconds(std::chrono::hours(10)));
}

}  // namespace
}  // namespace msstream::serve
