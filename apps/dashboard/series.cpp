// SPDX-License-Identifier: Apache-2.0
#include "dashboard/series.hpp"

#include <msstream/base/detail/require.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace msstream::dashboard {

namespace {

Series::Point point_of(double x, double y) {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  return std::isfinite(y) ? Series::Point{x, y, y, y, 1} : Series::Point{x, nan, nan, nan, 0};
}

/// Returns the point of the values of both; `second` is the later one.
Series::Point joined(Series::Point const& first, Series::Point const& second) {
  if (first.count == 0 || second.count == 0) {
    auto const& known = first.count != 0 ? first : second;
    return {second.x, known.y, known.low, known.high, known.count};
  }
  auto const count = first.count + second.count;
  auto const weight = static_cast<double>(second.count) / static_cast<double>(count);
  // As a sum of parts: the sum of two large values may be infinite.
  return {second.x,
          first.y * (1 - weight) + second.y * weight,
          std::min(first.low, second.low),
          std::max(first.high, second.high),
          count};
}

}  // namespace

Series::Series(std::size_t capacity) : capacity_(capacity) {
  require(capacity >= 2 && capacity % 2 == 0,
          "Series: {} points; expected an even number of at least 2",
          capacity);
}

void Series::add(double x, double y) {
  auto const value = point_of(x, y);
  pending_point_ = pending_ == 0 ? value : joined(pending_point_, value);
  pending_sum_ = (pending_ == 0 ? 0 : pending_sum_) + (value.count != 0 ? y : 0);
  if (pending_point_.count != 0) {
    pending_point_.y = pending_sum_ / static_cast<double>(pending_point_.count);
  }
  if (++pending_ < values_a_point_) {
    return;
  }
  points_.push_back(pending_point_);
  pending_ = 0;
  if (points_.size() == capacity_) {
    join_pairs();
  }
}

std::vector<Series::Point> Series::points() const {
  auto all = points_;
  if (pending_ > 0) {
    all.push_back(pending_point_);
  }
  return all;
}

void Series::join_pairs() {
  for (std::size_t i = 0; i < points_.size() / 2; ++i) {
    points_[i] = joined(points_[2 * i], points_[2 * i + 1]);
  }
  points_.resize(points_.size() / 2);
  values_a_point_ *= 2;
}

}  // namespace msstream::dashboard
