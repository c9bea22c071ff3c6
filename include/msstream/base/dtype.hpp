// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msstream {

/// IEEE 754 binary16 as stored; arithmetic is done in float.
struct float16 {
  std::uint16_t bits;
};

/// bfloat16 as stored: the upper half of a binary32; arithmetic is done in float.
struct bfloat16 {
  std::uint16_t bits;
};

/// The element types that cross the library's type-erased seams.
enum class DType : std::uint8_t { float32, float16, bfloat16, int32, int64, uint8 };

template <class T>
inline constexpr bool is_dtype = false;
template <class T>
inline constexpr DType dtype_of = DType::uint8;

#define MSSTREAM_DTYPE(type, name)             \
  template <>                                  \
  inline constexpr bool is_dtype<type> = true; \
  template <>                                  \
  inline constexpr DType dtype_of<type> = DType::name;
MSSTREAM_DTYPE(float, float32)
MSSTREAM_DTYPE(float16, float16)
MSSTREAM_DTYPE(bfloat16, bfloat16)
MSSTREAM_DTYPE(std::int32_t, int32)
MSSTREAM_DTYPE(std::int64_t, int64)
MSSTREAM_DTYPE(std::uint8_t, uint8)
#undef MSSTREAM_DTYPE

/// An element type of a Tensor.
template <class T>
concept Element = is_dtype<T>;

[[nodiscard]] constexpr std::size_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float16:
    case DType::bfloat16:
      return 2;
    case DType::int64:
      return 8;
    case DType::uint8:
      return 1;
  }
  return 0;
}

[[nodiscard]] constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::uint8:
      return "uint8";
  }
  return "unknown";
}

[[nodiscard]] constexpr float to_float(float value) {
  return value;
}

[[nodiscard]] constexpr float to_float(bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}

[[nodiscard]] constexpr float to_float(float16 value) {
  std::uint32_t const sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16U;
  std::uint32_t const exponent = (value.bits >> 10U) & 0x1FU;
  std::uint32_t const mantissa = value.bits & 0x3FFU;
  if (exponent == 0) {
    float const magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  std::uint32_t const wide = exponent == 31 ? 0x7F800000U : (exponent + 112U) << 23U;
  return std::bit_cast<float>(sign | wide | (mantissa << 13U));
}

/// Rounds to the nearest representable value, ties to even; NaN stays NaN.
template <class T>
[[nodiscard]] constexpr T from_float(float value);

template <>
constexpr float from_float<float>(float value) {
  return value;
}

template <>
constexpr bfloat16 from_float<bfloat16>(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<std::uint16_t>((bits >> 16U) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

template <>
constexpr float16 from_float<float16>(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  auto const sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  std::uint32_t const magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return {static_cast<std::uint16_t>(sign | 0x7E00U)};
  }
  if (magnitude >= 0x477FF000U) {  // rounds to 2^16 or more: infinity
    return {static_cast<std::uint16_t>(sign | 0x7C00U)};
  }
  if (magnitude < 0x38800000U) {  // below 2^-14: subnormal, in units of 2^-24
    std::uint32_t const exponent = magnitude >> 23U;
    if (exponent < 102U) {
      return {sign};
    }
    std::uint32_t const mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
    std::uint32_t const shift = 126U - exponent;
    std::uint32_t const kept = mantissa >> shift;
    std::uint32_t const lost = mantissa & ((1U << shift) - 1U);
    std::uint32_t const half = 1U << (shift - 1U);
    bool const up = lost > half || (lost == half && (kept & 1U) != 0);
    return {static_cast<std::uint16_t>(sign | (kept + (up ? 1U : 0U)))};
  }
  std::uint32_t const rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
  return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13U))};
}

}  // namespace msstream
