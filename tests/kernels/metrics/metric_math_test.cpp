// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_math.hpp"

#include "kernels/kernel_fixture.hpp"

#include <gtest/gtest.h>

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

TEST(MetricMath, buckets_ascend_and_are_within_range) {
  for (std::int64_t const count :
       {std::int64_t{256}, std::int64_t{1} << 16, std::int64_t{1} << 24}) {
    std::int64_t last = 0;
    for (double logit = -40.0; logit <= 40.0; logit += 0.0103) {
      auto const bucket = bucket_of_logit(logit, count);
      ASSERT_GE(bucket, last) << logit;
      last = bucket;
    }
    EXPECT_EQ(last, count - 1);
    EXPECT_EQ(bucket_of_logit(-std::numeric_limits<double>::infinity(), count), 0);
    EXPECT_EQ(bucket_of_probability(0.0F, count), 0);
    EXPECT_EQ(bucket_of_probability(1.0F, count), count - 1);
    EXPECT_EQ(bucket_of_probability(0.5F, count), count / 2);
    EXPECT_EQ(bucket_of_probability(std::nextafter(0.5F, 0.0F), count), count / 2 - 1);
    last = 0;
    for (double logit = -40.0; logit <= 17.0; logit += 0.0103) {
      auto const bucket =
          bucket_of_probability(static_cast<float>(1.0 / (1.0 + std::exp(-logit))), count);
      ASSERT_GE(bucket, last) << logit;
      ASSERT_LT(bucket, count);
      last = bucket;
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
