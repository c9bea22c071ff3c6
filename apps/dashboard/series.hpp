// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace msstream::dashboard {

/// A curve of bounded size. When it is full, neighbouring points are joined in pairs, so that any
/// number of values leaves between half and all of the points, evenly spread. Not synchronised.
class Series {
 public:
  /// Some neighbouring values. Values that are not finite count for nothing but `x`.
  struct Point {
    double x;           ///< of the last value
    double y;           ///< the mean; NaN if no value is finite
    double low;         ///< the least value; NaN if no value is finite
    double high;        ///< the greatest value; NaN if no value is finite
    std::size_t count;  ///< of finite values
    friend bool operator==(Point const&, Point const&) = default;
  };

  /// Keeps at most `capacity` points, an even number.
  explicit Series(std::size_t capacity = 1024);

  /// Adds a value; `x` must not decrease.
  void add(double x, double y);
  /// Returns the points, and as the last one the values that do not fill a point yet.
  [[nodiscard]] std::vector<Point> points() const;
  /// Returns the number of values that fill a point.
  [[nodiscard]] std::size_t values_a_point() const noexcept { return values_a_point_; }

 private:
  void join_pairs();

  std::size_t capacity_;
  std::vector<Point> points_;
  std::size_t values_a_point_ = 1;
  std::size_t pending_ = 0;  ///< values of the point that is not complete yet
  Point pending_point_{};
  double pending_sum_ = 0;  ///< of the finite values
};

}  // namespace msstream::dashboard
