// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_math.hpp"

#include "kernels/kernel_fixture.hpp"
#include "metrics/bucket_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

constexpr double kUnit = 0x1p-52;

TEST(MetricMath, exp_is_within_two_units) {
  for (double x = -44.0; x < 44.0; x += 0.00371) {
    ASSERT_NEAR(exp_of(x) / std::exp(x), 1.0, 2 * kUnit) << x;
  }
  EXPECT_EQ(exp_of(0.0), 1.0);
  EXPECT_GT(exp_of(-700.0), 0.0);
}

TEST(MetricMath, log_is_within_two_units) {
  for (double x = 0x1p-64; x < 4.0; x *= 1.00317) {
    ASSERT_NEAR(log_of(x), std::log(x), 2 * kUnit * (1.0 + std::abs(std::log(x)))) << x;
  }
  EXPECT_EQ(log_of(1.0), 0.0);
}

TEST(MetricMath, gains_of_whole_grades_are_exact) {
  for (int grade = 0; grade <= 30; ++grade) {
    EXPECT_EQ(exponential_gain(grade), std::exp2(grade) - 1.0);
  }
  EXPECT_NEAR(exponential_gain(2.5), std::exp2(2.5) - 1.0, 1e-14);
}

TEST(MetricMath, fixed_sums_are_exact) {
  Random random;
  FixedSum ascending;
  FixedSum descending;
  for (int i = 0; i < 1000; ++i) {
    ascending.add(std::ldexp(i, -40));
    descending.add(std::ldexp(999 - i, -40));
  }
  EXPECT_EQ(value_of(ascending.digits), std::ldexp(499'500.0, -40));
  for (int d = 0; d < 3; ++d) {
    EXPECT_EQ(ascending.digits[d], descending.digits[d]);
  }
  FixedSum large;
  large.add(0x1p32 - 1.0);
  large.add(0x1p32 - 1.0);
  large.add(0.5);
  EXPECT_EQ(value_of(large.digits), 0x1p33 - 1.5);
}

TEST(MetricMath, ordered_bits_ascend_with_the_numbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float const ascending[] = {
      -kInfinity, -1e30F, -1.0F, -1e-40F, 0.0F, 1e-45F, 1e-30F, 2.0F, kInfinity};
  for (std::size_t i = 0; i + 1 < std::size(ascending); ++i) {
    EXPECT_LT(ordered_bits(ascending[i]), ordered_bits(ascending[i + 1])) << ascending[i];
  }
  EXPECT_EQ(ordered_bits(-0.0F), ordered_bits(0.0F));
}

TEST(MetricMath, buckets_ascend_with_the_distance_and_are_within_range) {
  for (std::int64_t const count :
       {std::int64_t{256}, std::int64_t{1} << 16, std::int64_t{1} << 24}) {
    std::int64_t last = count / 2;
    for (double distance = 0x1p-50; distance < 0x1p17; distance *= 1.00317) {
      auto const bucket = bucket_at(distance, count);
      ASSERT_GE(bucket, last) << distance;
      ASSERT_EQ(bucket_at(-distance, count), count - 1 - bucket) << distance;
      last = bucket;
    }
    EXPECT_EQ(last, count - 1);
    EXPECT_EQ(bucket_at(0.0, count), count / 2);
    EXPECT_EQ(bucket_at(-0x1p-60, count), count / 2 - 1);
    EXPECT_EQ(bucket_at(std::numeric_limits<double>::infinity(), count), count - 1);
    EXPECT_EQ(bucket_at(-std::numeric_limits<double>::infinity(), count), 0);
    // Each power of two has count / 128 buckets.
    EXPECT_EQ(bucket_at(0x1p3, count) - bucket_at(0x1p2, count), count / 128);
    EXPECT_EQ(bucket_at(0x1p-30, count) - bucket_at(0x1p-31, count), count / 128);
  }
}

TEST(MetricMath, logits_of_probabilities_ascend) {
  double last = logit_of(0.0F, true);
  EXPECT_EQ(last, -std::numeric_limits<double>::infinity());
  for (float p = 1e-45F; p < 1.0F; p = std::max(p * 1.0003F, std::nextafter(p, 2.0F))) {
    auto const logit = logit_of(p, true);
    ASSERT_GT(logit, last) << p;
    ASSERT_NEAR(logit, std::log(p / (1.0 - p)), 1e-13) << p;
    last = logit;
  }
  EXPECT_EQ(logit_of(1.0F, true), std::numeric_limits<double>::infinity());
  EXPECT_EQ(logit_of(1.0F, false), 1.0);
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
