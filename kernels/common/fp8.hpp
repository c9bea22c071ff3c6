// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace msstream::ops::kernels {

/// The two formats of 8-bit floats, as in "FP8 Formats for Deep Learning" (Micikevicius et al.,
/// 2022). e4m3 has 3 bits of mantissa, numbers from 2^-9 to 448 and no infinity; e5m2 has 2 bits,
/// numbers from 2^-16 to 57,344, and is the upper half of a float16.
enum class Fp8Format : std::uint8_t { e4m3, e5m2 };

/// The code of NaN that to_fp8() gives, in both formats.
inline constexpr std::uint8_t kFp8Nan = 0x7F;
/// The divisor of the numbers of rows and columns of matrices of 8-bit floats that products of
/// cuBLASLt need. Matrices are padded to multiples of it with zeros.
inline constexpr std::int64_t kFp8Multiple = 16;

[[nodiscard]] constexpr std::int64_t padded_to_fp8(std::int64_t count) {
  return (count + kFp8Multiple - 1) / kFp8Multiple * kFp8Multiple;
}

/// Returns the largest finite number of the format.
[[nodiscard]] constexpr float largest_of(Fp8Format format) {
  return format == Fp8Format::e4m3 ? 448.0F : 57'344.0F;
}

/// Returns the code of the number nearest to a float; of two equally near ones, the one whose last
/// bit is 0. A finite number beyond the largest becomes the largest. NaN and infinities become
/// kFp8Nan, so that an overflow stays visible.
[[nodiscard]] constexpr std::uint8_t to_fp8(float value, Fp8Format format) {
  bool const is_e4m3 = format == Fp8Format::e4m3;
  std::uint32_t const mantissa_bits = is_e4m3 ? 3 : 2;
  std::uint32_t const bias = is_e4m3 ? 7 : 15;
  std::uint32_t const largest = is_e4m3 ? 0x7E : 0x7B;
  auto const bits = std::bit_cast<std::uint32_t>(value);
  auto const magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= 0x7F800000U) {
    return kFp8Nan;
  }
  std::uint32_t code = 0;
  if (magnitude < (128 - bias) << 23U) {
    // The number is below the least normal one. Added to a float whose last bit has the weight of
    // the format's least number, it is rounded to a multiple of that number.
    float const anchor = std::bit_cast<float>((128 - bias - mantissa_bits + 23) << 23U);
    code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + anchor) -
           std::bit_cast<std::uint32_t>(anchor);
  } else {
    std::uint32_t const dropped = 23 - mantissa_bits;
    auto const rounded =
        (magnitude + (1U << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1U)) >> dropped;
    code = rounded - ((127 - bias) << mantissa_bits);
  }
  return static_cast<std::uint8_t>(std::min(code, largest) | (bits >> 24U & 0x80U));
}

/// Returns the number of a code as float32, exactly.
[[nodiscard]] constexpr float from_fp8(std::uint8_t code, Fp8Format format) {
  if (format == Fp8Format::e5m2) {
    return to_float(float16{static_cast<std::uint16_t>(code << 8U)});
  }
  std::uint32_t const magnitude = code & 0x7FU;
  if (magnitude == kFp8Nan) {
    return std::bit_cast<float>(0x7FC00000U);
  }
  // As the upper bits of a float16, the code has an exponent that is too small by the difference of
  // the biases, 8.
  float const value = to_float(float16{static_cast<std::uint16_t>(magnitude << 7U)}) * 256.0F;
  return (code & 0x80U) != 0 ? -value : value;
}

/// The scale of a quantised matrix, and its inverse.
struct Fp8Scale {
  float scale;    ///< multiplies the numbers before they are rounded
  float inverse;  ///< multiplies the rounded numbers
};

/// Returns the scale that maps `largest`, the largest magnitude of a matrix's finite elements, to
/// the largest number of the format: 1 for a matrix of zeros. It is at most 2^126, whose inverse is
/// a normal float.
[[nodiscard]] constexpr Fp8Scale fp8_scale(float largest, Fp8Format format) {
  if (largest == 0.0F) {
    return {1.0F, 1.0F};
  }
  float const scale = largest_of(format) / largest;  // infinite for tiny numbers
  float const bounded = scale < 0x1p126F ? scale : 0x1p126F;
  return {bounded, 1.0F / bounded};
}

/// The product of two inverses of scales, by which sums of products of rounded numbers are
/// multiplied. The product itself may be too large or too small for a float although the results
/// are not, so that it is kept as three factors.
struct Fp8Factor {
  float mantissa;  ///< from 1 to below 4
  float first;     ///< a power of two, like `second`, whose exponent differs by at most one
  float second;

  /// Returns sum * left * right, rounded as if by the exact product of the powers of two. Finite
  /// and with all bits whenever the result is a normal float, and 0 for 0.
  [[nodiscard]] constexpr float times(float sum) const { return sum * mantissa * first * second; }
};

/// Returns left * right for two normal floats above 0, such as those of fp8_scale().
[[nodiscard]] constexpr Fp8Factor fp8_factor(float left, float right) {
  auto const left_bits = std::bit_cast<std::uint32_t>(left);
  auto const right_bits = std::bit_cast<std::uint32_t>(right);
  constexpr std::uint32_t kMantissa = 0x007FFFFFU;
  constexpr std::uint32_t kOne = 0x3F800000U;
  // The sum of both exponents, each with a bias of 127.
  auto const exponents = (left_bits >> 23U) + (right_bits >> 23U);
  return {std::bit_cast<float>((left_bits & kMantissa) | kOne) *
              std::bit_cast<float>((right_bits & kMantissa) | kOne),
          std::bit_cast<float>(exponents / 2 << 23U),
          std::bit_cast<float>((exponents - exponents / 2) << 23U)};
}

}  // namespace msstream::ops::kernels
