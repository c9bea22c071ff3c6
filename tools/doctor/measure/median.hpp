// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::doctor {

/// Returns the median of measurements, the upper one of an even number; 0 for none.
[[nodiscard]] inline double median_of(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace msstream::doctor
