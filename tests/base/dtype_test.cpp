// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/dtype.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace msstream {
namespace {

/// The bit layout of a 16-bit floating-point type. value_of() and rounded() compute reference
/// values in double from it.
template <class T>
struct Layout;
template <>
struct Layout<float16> {
  static constexpr int kMantissaBits = 10;
  static constexpr int kLargestExponent = 15;
  static constexpr int kSmallestExponent = -14;
};
template <>
struct Layout<bfloat16> {
  static constexpr int kMantissaBits = 7;
  static constexpr int kLargestExponent = 127;
  static constexpr int kSmallestExponent = -126;
};

template <class T>
double value_of(std::uint16_t bits) {
  using L = Layout<T>;
  int const mantissa = bits & ((1 << L::kMantissaBits) - 1);
  int const exponent = (bits & 0x7FFF) >> L::kMantissaBits;
  double const sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == L::kLargestExponent * 2 + 1) {
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  double const implicit_one = exponent == 0 ? 0 : 1 << L::kMantissaBits;
  return sign * std::ldexp(implicit_one + mantissa,
                           std::max(exponent, 1) - L::kLargestExponent - L::kMantissaBits);
}

/// Rounds to the nearest value of T, ties to even, computed directly in units in the last place.
template <class T>
double rounded(double value) {
  using L = Layout<T>;
  if (value == 0 || std::isinf(value)) {
    return value;
  }
  int const exponent = std::max(std::ilogb(value), L::kSmallestExponent);
  double const unit = std::ldexp(1.0, exponent - L::kMantissaBits);
  double const result = std::nearbyint(value / unit) * unit;
  return std::fabs(result) >= std::ldexp(1.0, L::kLargestExponent + 1)
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : result;
}

template <class T>
class NarrowFloat : public testing::Test {
 protected:
  /// Returns the 23-bit mantissa that `narrow` has after widening to float. A NaN keeps its payload
  /// when it is widened.
  static std::uint32_t mantissa_of_wide(T narrow) {
    constexpr unsigned kBits = Layout<T>::kMantissaBits;
    return (narrow.bits & ((1U << kBits) - 1U)) << (23U - kBits);
  }
  static void expect_rounds(float value) {
    T const narrow = from_float<T>(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(narrow)));
      ASSERT_EQ(std::signbit(to_float(narrow)), std::signbit(value));
      return;
    }
    double const expected = rounded<T>(value);
    ASSERT_EQ(value_of<T>(narrow.bits), expected) << value;
    ASSERT_EQ((narrow.bits & 0x8000) != 0, std::signbit(value)) << value;
  }
};
using NarrowFloats = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(NarrowFloat, NarrowFloats);

TYPED_TEST(NarrowFloat, widens_every_pattern_exactly_and_narrows_it_back) {
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    TypeParam const narrow{static_cast<std::uint16_t>(pattern)};
    float const wide = to_float(narrow);
    double const expected = value_of<TypeParam>(narrow.bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << pattern;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wide) & 0x7FFFFFU, this->mantissa_of_wide(narrow));
      ASSERT_TRUE(std::isnan(to_float(from_float<TypeParam>(wide)))) << pattern;
    } else {
      ASSERT_EQ(static_cast<double>(wide), expected) << pattern;
      ASSERT_EQ(std::signbit(wide), (pattern & 0x8000U) != 0) << pattern;
      ASSERT_EQ(from_float<TypeParam>(wide).bits, narrow.bits) << pattern;
    }
  }
}

TYPED_TEST(NarrowFloat, rounds_the_middles_of_all_neighbours_and_beside_them) {
  for (std::uint32_t pattern = 0; pattern < 0x7FFF; ++pattern) {
    float const low = to_float(TypeParam{static_cast<std::uint16_t>(pattern)});
    float const high = to_float(TypeParam{static_cast<std::uint16_t>(pattern + 1)});
    if (!std::isfinite(low) || !std::isfinite(high)) {
      continue;
    }
    float const middle = low + (high - low) / 2;
    for (float const near : {std::nextafter(middle, low), middle, std::nextafter(middle, high)}) {
      this->expect_rounds(near);
      this->expect_rounds(-near);
    }
  }
}

TYPED_TEST(NarrowFloat, rounds_random_patterns_like_a_double) {
  std::mt19937 random(7);
  for (int i = 0; i < 2'000'000; ++i) {
    this->expect_rounds(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  }
}

TYPED_TEST(NarrowFloat, rounds_at_the_edges_of_its_range) {
  using Limits = std::numeric_limits<float>;
  float const largest = to_float(from_float<TypeParam>(Limits::max()));
  EXPECT_TRUE(std::isinf(largest)) << "FLT_MAX is nearer to 2^128 than to any finite value";
  for (float const edge : {65504.0F, 65519.996F, 65520.0F, 0x1p-24F, 0x1p-25F, 0x1.000002p-25F}) {
    this->expect_rounds(edge);
    this->expect_rounds(-edge);
  }
  for (float const edge : {Limits::denorm_min(), Limits::min(), Limits::infinity(), 0.0F}) {
    this->expect_rounds(edge);
    this->expect_rounds(-edge);
  }
  this->expect_rounds(std::bit_cast<float>(0x7F800001U));  // the float NaN with the lowest payload
  this->expect_rounds(std::bit_cast<float>(0xFFFFFFFFU));
}

TEST(DType, has_a_name_and_bytes_for_every_element) {
  EXPECT_EQ(name_of(dtype_of<float>), "float32");
  EXPECT_EQ(name_of(dtype_of<float16>), "float16");
  EXPECT_EQ(name_of(dtype_of<bfloat16>), "bfloat16");
  EXPECT_EQ(name_of(dtype_of<std::int32_t>), "int32");
  EXPECT_EQ(name_of(dtype_of<std::int64_t>), "int64");
  EXPECT_EQ(name_of(dtype_of<std::uint8_t>), "uint8");
  EXPECT_EQ(bytes_of(dtype_of<float>), sizeof(float));
  EXPECT_EQ(bytes_of(dtype_of<float16>), sizeof(float16));
  EXPECT_EQ(bytes_of(dtype_of<bfloat16>), sizeof(bfloat16));
  EXPECT_EQ(bytes_of(dtype_of<std::int32_t>), sizeof(std::int32_t));
  EXPECT_EQ(bytes_of(dtype_of<std::int64_t>), sizeof(std::int64_t));
  EXPECT_EQ(bytes_of(dtype_of<std::uint8_t>), sizeof(std::uint8_t));
}

TEST(DType, is_of_elements_only) {
  static_assert(Element<float> && Element<bfloat16>);
  static_assert(!Element<double> && !Element<bool> && !Element<std::int8_t>);
}

TEST(DType, converts_at_compile_time) {
  static_assert(from_float<float16>(1.0F).bits == 0x3C00);
  static_assert(from_float<bfloat16>(-2.0F).bits == 0xC000);
  static_assert(to_float(float16{0x7BFF}) == 65504.0F);
}

}  // namespace
}  // namespace msstream
