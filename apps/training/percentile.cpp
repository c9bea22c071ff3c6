// SPDX-License-Identifier: Apache-2.0
#include "training/percentile.hpp"

#include <msstream/base/detail/require.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::training {

double percentile(std::span<double const> values, double percent) {
  require(!values.empty(), "percentile: there are no values");
  require(percent >= 0 && percent <= 100, "percentile: expected 0 to 100, found {}", percent);
  std::vector<double> sorted(values.begin(), values.end());
  double const position = percent / 100.0 * static_cast<double>(sorted.size() - 1);
  auto const below = static_cast<std::size_t>(position);
  auto const lower = sorted.begin() + static_cast<std::ptrdiff_t>(below);
  std::ranges::nth_element(sorted, lower);
  double const fraction = position - static_cast<double>(below);
  if (fraction == 0) {
    return *lower;
  }
  return *lower + fraction * (*std::min_element(lower + 1, sorted.end()) - *lower);
}

}  // namespace msstream::training
