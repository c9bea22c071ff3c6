// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/fp8.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

/// 8-bit floats in float64, by their definition, for references that share no code with kernels.
namespace msstream::ops::kernels::testing {

/// Returns the number of a code, or NaN or infinity.
[[nodiscard]] inline double fp8_number(std::uint8_t code, Fp8Format format) {
  bool const is_e4m3 = format == Fp8Format::e4m3;
  int const mantissa_bits = is_e4m3 ? 3 : 2;
  int const bias = is_e4m3 ? 7 : 15;
  int const exponent = (code & 0x7F) >> mantissa_bits;
  int const mantissa = code & ((1 << mantissa_bits) - 1);
  double const sign = code < 0x80 ? 1 : -1;
  if (is_e4m3 && (code & 0x7F) == 0x7F) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (!is_e4m3 && exponent == 0x1F) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  }
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

/// Returns the finite numbers of a format that are not negative, in the order of their codes.
[[nodiscard]] inline std::vector<double> const& fp8_numbers(Fp8Format format) {
  auto const made = [](Fp8Format of) {
    int const largest = of == Fp8Format::e4m3 ? 0x7E : 0x7B;
    std::vector<double> numbers;
    for (int code = 0; code <= largest; ++code) {
      numbers.push_back(fp8_number(static_cast<std::uint8_t>(code), of));
    }
    return numbers;
  };
  static auto const e4m3 = made(Fp8Format::e4m3);
  static auto const e5m2 = made(Fp8Format::e5m2);
  return format == Fp8Format::e4m3 ? e4m3 : e5m2;
}

/// Returns the code of the finite number nearest to a number, the even one of two: nothing for NaN
/// and infinities.
[[nodiscard]] inline std::optional<std::uint8_t> nearest_fp8(double number, Fp8Format format) {
  if (!std::isfinite(number)) {
    return std::nullopt;
  }
  auto const& numbers = fp8_numbers(format);
  double const magnitude = std::min(std::abs(number), numbers.back());
  auto const above = std::lower_bound(numbers.begin(), numbers.end(), magnitude);
  auto code = above - numbers.begin();
  if (*above > magnitude) {
    double const up = *above - magnitude;
    double const down = magnitude - *(above - 1);
    code -= down < up || (down == up && code % 2 == 1) ? 1 : 0;
  }
  return static_cast<std::uint8_t>(code | (std::signbit(number) ? 0x80 : 0));
}

/// Returns the number that quantising gives for one of a matrix, by float32 scales: NaN for NaN and
/// infinities.
[[nodiscard]] inline double quantised_number(float number, float largest, Fp8Format format) {
  float const limit = format == Fp8Format::e4m3 ? 448.0F : 57'344.0F;
  float const scale = largest == 0.0F ? 1.0F : limit / largest;
  auto const code = nearest_fp8(static_cast<double>(number * scale), format);
  return code ? fp8_number(*code, format) / static_cast<double>(scale)
              : std::numeric_limits<double>::quiet_NaN();
}

/// Returns the numbers of a matrix as quantising gives them.
[[nodiscard]] inline std::vector<double> quantised_numbers(std::vector<double> const& numbers,
                                                           Fp8Format format) {
  float largest = 0.0F;
  for (double const number : numbers) {
    auto const magnitude = static_cast<float>(std::abs(number));
    largest = std::isfinite(magnitude) ? std::max(largest, magnitude) : largest;
  }
  std::vector<double> quantised;
  for (double const number : numbers) {
    quantised.push_back(quantised_number(static_cast<float>(number), largest, format));
  }
  return quantised;
}

/// The error of a sum of products of 8-bit floats, relative to the sum of their magnitudes: tensor
/// cores keep 14 bits of some sums, and float32 has 24.
inline constexpr double kFp8SumError = 0x1p-8;

}  // namespace msstream::ops::kernels::testing
