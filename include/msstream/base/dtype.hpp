// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace msstream {

/// An IEEE 754 binary16 number as stored; arithmetic is done in float.
struct float16 {
  std::uint16_t bits;  ///< IEEE 754 binary16
};

/// A bfloat16 number as stored: the upper half of a binary32; arithmetic is done in float.
struct bfloat16 {
  std::uint16_t bits;  ///< the upper half of a float32
};

/// The element types that the library's type-erased interfaces support.
enum class DType : std::uint8_t { float32, float16, bfloat16, int32, int64, uint8 };

/// Whether T is a type of elements, one of those of `DType`.
template <class T>
inline constexpr bool is_dtype = false;
/// The `DType` of elements of type T.
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

/// A floating-point element type of half the precision of float.
template <class T>
concept HalfElement = std::same_as<T, float16> || std::same_as<T, bfloat16>;
/// A floating-point element type.
template <class T>
concept RealElement = std::same_as<T, float> || HalfElement<T>;

/// Returns the size of an element in bytes.
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

/// Returns the name of the type, such as "float32".
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

// The conversions between float and 16-bit floats compute all cases in signed integers and then
// choose one, because compilers vectorise code in that form.
namespace detail {

/// Returns `chosen ? a : b`, computed by arithmetic, so that the compiler moves no computation of
/// `a` into a branch.
[[nodiscard]] constexpr std::int32_t choose(bool chosen, std::int32_t a, std::int32_t b) {
  std::int32_t const mask = -static_cast<std::int32_t>(chosen);
  return (a & mask) | (b & ~mask);
}

/// The difference of the exponent biases of binary32 and binary16, shifted to the exponent bits of
/// a binary32.
inline constexpr std::int32_t kHalfBias = (127 - 15) << 23U;
inline constexpr std::int32_t kInfinityBits = 0x7F800000;

}  // namespace detail

/// Returns the number as float32, exactly.
[[nodiscard]] constexpr float to_float(float value) {
  return value;
}

[[nodiscard]] constexpr float to_float(bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}

[[nodiscard]] constexpr float to_float(float16 value) {
  std::int32_t const magnitude = value.bits & 0x7FFF;
  std::int32_t const bias = magnitude < 0x7C00 ? detail::kHalfBias : 2 * detail::kHalfBias;
  std::int32_t const normal = (magnitude << 13U) + bias;
  auto const subnormal = std::bit_cast<std::int32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  std::int32_t const wide = detail::choose(magnitude < 0x0400, subnormal, normal);
  return std::bit_cast<float>(static_cast<std::uint32_t>(wide) |
                              static_cast<std::uint32_t>(value.bits & 0x8000U) << 16U);
}

/// Converts a float to T, rounded to the nearest representable value, ties to even; NaN stays NaN.
template <class T>
[[nodiscard]] constexpr T from_float(float value);

template <>
constexpr float from_float<float>(float value) {
  return value;
}

template <>
constexpr bfloat16 from_float<bfloat16>(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  auto const magnitude = static_cast<std::int32_t>(bits & 0x7FFFFFFFU);
  std::uint32_t const rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  std::uint32_t const quiet = (bits >> 16U) | 0x40U;
  return {static_cast<std::uint16_t>(magnitude > detail::kInfinityBits ? quiet : rounded)};
}

template <>
constexpr float16 from_float<float16>(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  auto const magnitude = static_cast<std::int32_t>(bits & 0x7FFFFFFFU);
  // Adding 0.5 rounds a value below 2^-14 to a multiple of 2^-24, which is the unit in the last
  // place of 0.5 in binary32.
  auto const subnormal = std::bit_cast<std::int32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
                         std::bit_cast<std::int32_t>(0.5F);
  std::int32_t const normal =
      (magnitude - detail::kHalfBias + 0xFFF + ((magnitude >> 13U) & 1)) >> 13U;
  std::int32_t const finite = detail::choose(magnitude < 0x38800000, subnormal, normal);
  // Values from 0x477FF000 on, as binary32 bits, round to 2^16, which binary16 cannot represent.
  auto const infinity_or_nan = detail::choose(magnitude > detail::kInfinityBits, 0x7E00, 0x7C00);
  auto const narrow = detail::choose(magnitude < 0x477FF000, finite, infinity_or_nan);
  return {
      static_cast<std::uint16_t>(static_cast<std::uint32_t>(narrow) | ((bits >> 16U) & 0x8000U))};
}

/// Writes a float16 or bfloat16 number as a float. The caller must include `<ostream>`.
template <HalfElement T>
std::ostream& operator<<(std::ostream& out, T value) {
  return out << to_float(value);
}

}  // namespace msstream
