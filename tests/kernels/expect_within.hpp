// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace msstream::ops::kernels::testing {

/// Expects each element to differ from the expected value by at most `tolerance` times (1 + the
/// magnitude of the expected value). NaN and infinity must be where they are expected, and nowhere
/// else.
inline void expect_within(std::vector<float> const& actual,
                          std::vector<double> const& expected,
                          double tolerance = 1e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    bool const same = std::isnan(expected[i])   ? std::isnan(actual[i])
                      : std::isinf(expected[i]) ? actual[i] == expected[i]
                                                : std::abs(actual[i] - expected[i]) <=
                                                      tolerance * (1 + std::abs(expected[i]));
    ASSERT_TRUE(same) << "element " << i << " is " << actual[i] << ", not " << expected[i];
  }
}

}  // namespace msstream::ops::kernels::testing
