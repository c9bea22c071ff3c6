// SPDX-License-Identifier: Apache-2.0
#include "dashboard/series.hpp"

#include <gtest/gtest.h>

#include <cstddef>
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
  EXPECT_EQ(series.points().front(), (Point{1, 10}));
  EXPECT_EQ(series.points().back(), (Point{7, 70}));
}

TEST(Series, joins_neighbours_when_it_is_full) {
  Series series(4);
  for (int i = 1; i <= 4; ++i) {
    series.add(i, i);
  }
  EXPECT_EQ(series.points(), (std::vector<Point>{{2, 1.5}, {4, 3.5}}));
  series.add(5, 5);  // half of the next point, shown all the same
  EXPECT_EQ(series.points(), (std::vector<Point>{{2, 1.5}, {4, 3.5}, {5, 5}}));
  series.add(6, 7);
  EXPECT_EQ(series.points(), (std::vector<Point>{{2, 1.5}, {4, 3.5}, {6, 6}}));
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
