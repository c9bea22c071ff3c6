// SPDX-License-Identifier: Apache-2.0
#include "training/percentile.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace msstream::training {
namespace {

TEST(Percentile, percentiles_interpolate) {
  std::vector<double> const values{40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 10);
  EXPECT_DOUBLE_EQ(percentile(values, 50), 25);
  EXPECT_DOUBLE_EQ(percentile(values, 99), 39.7);
  EXPECT_DOUBLE_EQ(percentile(values, 100), 40);
  EXPECT_DOUBLE_EQ(percentile(std::vector<double>{3}, 75), 3);
  EXPECT_THROW((void)percentile({}, 50), std::invalid_argument);
  EXPECT_THROW((void)percentile(values, 101), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::training
