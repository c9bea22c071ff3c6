// SPDX-License-Identifier: Apache-2.0
#include "dashboard/series.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

namespace msstream::dashboard {
namespace {

using Point = Series::Point;

TEST(Series, has_every_value_until_it_is_full) {
  Series series(8);
  for (int i = 1; i <= 7; ++i) {
    series.add(i, 10.0 * i);
  }
  ASSERT_EQ(series.points().size(), 7U);
  EXPECT_EQ(series.points().front(), (Point{1, 10, 10, 10, 1}));
  EXPECT_EQ(series.points().back(), (Point{7, 70, 70, 70, 1}));
  EXPECT_EQ(series.values_a_point(), 1U);
}

TEST(Series, joins_neighbours_when_it_is_full) {
  Series series(4);
  for (int i = 1; i <= 4; ++i) {
    series.add(i, i);
  }
  Point const first{2, 1.5, 1, 2, 2};
  Point const second{4, 3.5, 3, 4, 2};
  EXPECT_EQ(series.points(), (std::vector<Point>{first, second}));
  EXPECT_EQ(series.values_a_point(), 2U);
  series.add(5, 5);  // half of the next point, shown all the same
  EXPECT_EQ(series.points(), (std::vector<Point>{first, second, {5, 5, 5, 5, 1}}));
  series.add(6, 7);
  EXPECT_EQ(series.points(), (std::vector<Point>{first, second, {6, 6, 5, 7, 2}}));
}

TEST(Series, keeps_the_height_of_a_spike) {
  Series series;
  constexpr int kValues = 1'000'000;
  for (int i = 1; i <= kValues; ++i) {
    series.add(i, i == 300'000 ? 50 : i == 600'000 ? -50 : 1);
  }
  double high = 0;
  double low = 0;
  std::size_t count = 0;
  for (auto const& point : series.points()) {
    high = std::max(high, point.high);
    low = std::min(low, point.low);
    count += point.count;
    EXPECT_NEAR(point.y, 1, 51. / 1024);
  }
  EXPECT_EQ(high, 50);
  EXPECT_EQ(low, -50);
  EXPECT_EQ(count, kValues);
  EXPECT_EQ(series.values_a_point(), 1024U);
}

TEST(Series, values_that_are_not_finite_leave_the_others_as_they_are) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Series series(4);
  double const values[] = {1, kNan, kInfinite, -kInfinite, kNan, 7};
  for (int i = 0; i < 6; ++i) {
    series.add(i + 1, values[i]);
  }
  auto const points = series.points();
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0], (Point{2, 1, 1, 1, 1}));
  EXPECT_EQ(points[1].x, 4);
  EXPECT_EQ(points[1].count, 0U);
  EXPECT_TRUE(std::isnan(points[1].y) && std::isnan(points[1].low) && std::isnan(points[1].high));
  EXPECT_EQ(points[2], (Point{6, 7, 7, 7, 1}));
}

TEST(Series, stays_bounded_and_keeps_the_mean) {
  Series series(64);
  constexpr int kValues = 1 << 16;
  for (int i = 1; i <= kValues; ++i) {
    series.add(i, i);
    ASSERT_LE(series.points().size(), 64U);
  }
  auto const points = series.points();
  EXPECT_GE(points.size(), 32U);
  EXPECT_EQ(points.back().x, kValues);
  double sum = 0;
  for (auto const& point : points) {
    sum += point.y;
  }
  EXPECT_DOUBLE_EQ(sum / static_cast<double>(points.size()), (1 + kValues) / 2.0);
}

TEST(Series, refuses_an_odd_capacity) {
  EXPECT_THROW(Series(7), std::invalid_argument);
  EXPECT_THROW(Series(0), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::dashboard
