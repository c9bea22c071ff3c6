// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ops_fixture.hpp"

#include <msstream/base/dtype.hpp>

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

/// Random operands of float32, float16 or bfloat16, and comparisons of results that are computed in
/// float32 and rounded once.
namespace msstream::testing {

/// The largest relative error of rounding a float to the nearest T.
template <class T>
inline constexpr double kUnitRoundoff = std::is_same_v<T, bfloat16>  ? 0x1p-8
                                        : std::is_same_v<T, float16> ? 0x1p-11
                                                                     : 0x1p-24;
/// The error of a float32 computation of moderate length, relative to the magnitudes of its terms:
/// sums have parts of 32 terms, which a tree adds.
inline constexpr double kFloatError = 64 * 0x1p-24;

template <class T>
[[nodiscard]] std::vector<T> rounded_to(Floats const& values) {
  std::vector<T> out;
  for (auto const value : values) {
    out.push_back(from_float<T>(value));
  }
  return out;
}

/// A tensor of random numbers of type T, and their values.
template <class T, Runtime R>
struct HalfOperand {
  Tensor<T, R> tensor;
  Doubles values;

  [[nodiscard]] double at(std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
};

/// A fixture that makes operands of type T.
template <class R>
class HalfTest : public OpsTest<R> {
 protected:
  template <class T>
  [[nodiscard]] HalfOperand<T, R> operand(Shape const& shape,
                                          float low = -2.0F,
                                          float high = 2.0F) {
    auto const values = rounded_to<T>(this->random.reals(shape.count(), low, high));
    return {this->put(values, shape), to_doubles(values)};
  }
};

/// Expects each element to differ from `expected` by at most its bound.
template <class T>
void expect_bounded(std::vector<T> const& actual, Doubles const& expected, Doubles const& bounds) {
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_EQ(actual.size(), bounds.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double const value = to_float(actual[i]);
    ASSERT_TRUE(std::abs(value - expected[i]) <= bounds[i])
        << "element " << i << " is " << value << ", not " << expected[i] << " within " << bounds[i];
  }
}

/// Returns the largest error of a number that is `expected`, apart from an error of at most
/// `before`, and is rounded to T once.
template <class T>
[[nodiscard]] double rounding_bound(double expected, double before) {
  constexpr double kLeast = std::is_same_v<T, float16> ? 0x1p-25 : 0x1p-134;
  return before + kUnitRoundoff<T> * (std::abs(expected) + before) + kLeast;
}

/// Expects each element to be the nearest T to a float32 computation, whose error is at most
/// kFloatError times a sum of magnitudes.
template <class T>
void expect_rounded_once(std::vector<T> const& actual,
                         Doubles const& expected,
                         Doubles const& magnitudes) {
  ASSERT_EQ(expected.size(), magnitudes.size());
  Doubles bounds;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    bounds.push_back(rounding_bound<T>(expected[i], kFloatError * magnitudes[i]));
  }
  expect_bounded(actual, expected, bounds);
}

}  // namespace msstream::testing
