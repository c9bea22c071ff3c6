// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <msstream/base/dtype.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

/// Returns a number rounded to odd: itself if it is a float, otherwise the one of the two floats
/// around it whose last bit is 1. Rounding that float to a type of half precision gives the same as
/// rounding the number at once (Boldo, Melquiond: Emulation of a FMA and Correctly-Rounded Sums,
/// 2008).
[[nodiscard]] MSSTREAM_HOST_DEVICE inline float rounded_to_odd(double number) {
  auto const nearest = static_cast<float>(number);
  auto const back = static_cast<double>(nearest);
  auto const bits = std::bit_cast<std::uint32_t>(nearest);
  if (back == number || std::isnan(number) || (bits & 1U) != 0) {
    return nearest;
  }
  bool const is_below = std::abs(back) < std::abs(number);
  return std::bit_cast<float>(is_below ? bits + 1 : bits - 1);
}

/// Returns the value of type T (float32, float16 or bfloat16) that is nearest to a number; of two
/// equally near ones, the one whose last bit is 0.
template <class T>
[[nodiscard]] MSSTREAM_HOST_DEVICE T round_once(double number) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(number);
  } else {
    return from_float<T>(rounded_to_odd(number));
  }
}

}  // namespace msstream::ops::kernels
