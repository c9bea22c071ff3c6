// SPDX-License-Identifier: Apache-2.0
#include "dashboard/series.hpp"

#include <msstream/base/detail/require.hpp>

namespace msstream::dashboard {

Series::Series(std::size_t capacity) : capacity_(capacity) {
  require(capacity >= 2 && capacity % 2 == 0,
          "Series: {} points; expected an even number of at least 2",
          capacity);
}

void Series::add(double x, double y) {
  pending_sum_ += y;
  pending_x_ = x;
  if (++pending_ < values_a_point_) {
    return;
  }
  points_.push_back({x, pending_sum_ / static_cast<double>(pending_)});
  pending_ = 0;
  pending_sum_ = 0;
  if (points_.size() == capacity_) {
    join_pairs();
  }
}

std::vector<Series::Point> Series::points() const {
  auto all = points_;
  if (pending_ > 0) {
    all.push_back({pending_x_, pending_sum_ / static_cast<double>(pending_)});
  }
  return all;
}

void Series::join_pairs() {
  for (std::size_t i = 0; i < points_.size() / 2; ++i) {
    auto const& first = points_[2 * i];
    auto const& second = points_[2 * i + 1];
    points_[i] = {second.x, (first.y + second.y) / 2};
  }
  points_.resize(points_.size() / 2);
  values_a_point_ *= 2;
}

}  // namespace msstream::dashboard
