// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "case.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace benchmarks::shapes {

/// A case that was measured.
struct Measured {
  Case what;
  double us;
  double bytes;       ///< that must move
  double cub_us = 0;  ///< time of CUB's algorithms, 0 if the case has no such baseline

  /// Returns the rate at which the bytes were moved, in GB/s.
  [[nodiscard]] double gbps() const { return bytes / us / 1e3; }
  /// Returns the time of CUB as a multiple of ours, 0 if there is none.
  [[nodiscard]] double cub_ratio() const { return cub_us / us; }
};

/// How slow each case is, as a multiple of the time that its operation and its bytes let one
/// expect: the least time of the operation at any measured shape, plus that of a device copy of
/// the bytes. Thus small and large shapes can be compared.
[[nodiscard]] std::vector<double> slowness(std::vector<Measured> const& all, double copy_gbps);

/// A case that is slower than its neighbours along one parameter.
struct Outlier {
  std::size_t index;       ///< of the case
  std::string_view along;  ///< the parameter
  double ratio;            ///< of its slowness to the larger one of its neighbours
};
/// Returns the cases whose slowness is at least kOutlier times that of each neighbour along one
/// parameter, the greatest ratio first, each case once. The neighbours are the measured cases with
/// the next smaller and the next larger value of the parameter, and all other parameters equal; at
/// the ends there is one.
inline constexpr double kOutlier = 1.3;
[[nodiscard]] std::vector<Outlier> find_outliers(std::vector<Measured> const& all,
                                                 std::vector<double> const& slowness);

/// Returns the heading of the lines of line_of(), and the line of a case.
[[nodiscard]] std::string heading();
[[nodiscard]] std::string line_of(Measured const& measured, double copy_gbps);
/// Returns the medians of the operations, the slowest cases and the outliers.
[[nodiscard]] std::string summary_of(std::vector<Measured> const& all, double copy_gbps);
/// Returns all cases as comma-separated values, with a line of names.
[[nodiscard]] std::string csv_of(std::vector<Measured> const& all, double copy_gbps);

}  // namespace benchmarks::shapes
