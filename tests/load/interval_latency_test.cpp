// SPDX-License-Identifier: Apache-2.0
#include "load/interval_latency.hpp"

#include <gmock/gmock.h>

#include <cstdint>

namespace msstream::load {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

LatencyCounts counts_of(LatencyCounter const& counter) {
  LatencyCounts counts;
  counter.add_to(counts);
  return counts;
}

MATCHER_P(IsAboutAndNotLess, expected, "") {
  return arg >= expected && arg.count() <= 1.05 * static_cast<double>(expected.count()) + 1;
}

TEST(IntervalLatencyTest, percentiles_are_those_of_what_was_recorded) {
  LatencyCounter counter;
  for (int i = 1; i <= 100; ++i) {
    counter.record(microseconds(i));
  }
  auto const found = IntervalLatency::between({}, counts_of(counter));
  EXPECT_EQ(found.count, 100U);
  EXPECT_THAT(found.p50, IsAboutAndNotLess(nanoseconds(microseconds(50))));
  EXPECT_THAT(found.p99, IsAboutAndNotLess(nanoseconds(microseconds(99))));
}

TEST(IntervalLatencyTest, what_was_before_does_not_count) {
  LatencyCounter counter;
  for (int i = 0; i < 1000; ++i) {
    counter.record(microseconds(5000));
  }
  auto const before = counts_of(counter);
  EXPECT_EQ(IntervalLatency::between(before, before).count, 0U);
  EXPECT_EQ(IntervalLatency::between(before, before).p99, nanoseconds(0));
  counter.record(microseconds(7));
  auto const found = IntervalLatency::between(before, counts_of(counter));
  EXPECT_EQ(found.count, 1U);
  EXPECT_THAT(found.p50, IsAboutAndNotLess(nanoseconds(microseconds(7))));
  EXPECT_THAT(found.p99, IsAboutAndNotLess(nanoseconds(microseconds(7))));
}

TEST(IntervalLatencyTest, sums_over_counters) {
  LatencyCounter one;
  LatencyCounter other;
  one.record(microseconds(3));
  other.record(microseconds(300));
  LatencyCounts sum;
  one.add_to(sum);
  other.add_to(sum);
  auto const found = IntervalLatency::between({}, sum);
  EXPECT_EQ(found.count, 2U);
  EXPECT_THAT(found.p50, IsAboutAndNotLess(nanoseconds(microseconds(3))));
  EXPECT_THAT(found.p99, IsAboutAndNotLess(nanoseconds(microseconds(300))));
}

TEST(IntervalLatencyTest, extremes_have_a_bucket) {
  LatencyCounter counter;
  counter.record(nanoseconds(-5));
  counter.record(nanoseconds(0));
  counter.record(std::chrono::hours(1000));
  EXPECT_EQ(IntervalLatency::between({}, counts_of(counter)).count, 3U);
}

}  // namespace
}  // namespace msstream::load
