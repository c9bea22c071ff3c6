// SPDX-License-Identifier: Apache-2.0
#include "load/load_sample.hpp"

#include <gmock/gmock.h>

namespace msstream::load {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(LoadIntervalsTest, each_is_from_the_end_of_the_last) {
  serve::Clock::time_point const begin{};
  LoadIntervals intervals(begin);
  LatencyCounter counter;
  auto const counts = [&] {
    LatencyCounts of_now;
    counter.add_to(of_now);
    return of_now;
  };
  for (int i = 0; i < 10; ++i) {
    counter.record(microseconds(100));
  }
  auto const first = intervals.next(begin + seconds(2), counts(), 7);
  EXPECT_EQ(first.at_s, 2);
  EXPECT_EQ(first.queries_per_s, 5);
  EXPECT_EQ(first.refused, 7U);
  counter.record(microseconds(100));
  auto const second = intervals.next(begin + seconds(3), counts(), 9);
  EXPECT_EQ(second.at_s, 3);
  EXPECT_EQ(second.queries_per_s, 1);
  EXPECT_EQ(second.refused, 2U);
  EXPECT_EQ(intervals.last(), begin + seconds(3));
}

int samples_of(LoadPlan const& plan, double length) {
  int samples = 0;
  std::chrono::duration<double> at{0};
  while (at.count() < length) {
    at += sample_period(plan, at);
    ++samples;
  }
  return samples;
}

TEST(LoadSampleTest, a_second_apart_more_often_in_short_loads_and_never_too_many) {
  auto const of_length = [](double length) {
    return samples_of({.length = std::chrono::duration<double>(length)}, length);
  };
  EXPECT_NEAR(of_length(60), 60, 1);
  EXPECT_NEAR(of_length(600), 600, 1);
  EXPECT_NEAR(of_length(86400), 600, 1);
  EXPECT_NEAR(of_length(2), 10, 1);
  EXPECT_NEAR(of_length(0.05), 5, 1);
  LoadPlan const counted{.iterations = 1000};
  EXPECT_GE(samples_of(counted, 0.05), 4);
  EXPECT_LE(samples_of(counted, 86400), 600);
}

TEST(MemoryTakenTest, what_was_given_back_is_below_zero) {
  MemoryTaken const before{.in_use = 100, .reserved = 10, .device = 7, .pinned = 3, .resident = 9};
  MemoryTaken const after{.in_use = 40, .reserved = 30, .device = 1, .pinned = 3, .resident = 5};
  auto const each = (after - before) / 2;
  EXPECT_EQ(each.in_use, -30);
  EXPECT_EQ(each.reserved, 10);
  EXPECT_EQ(each.device, -3);
  EXPECT_EQ(each.pinned, 0);
  EXPECT_EQ(each.resident, -2);
}

}  // namespace
}  // namespace msstream::load
