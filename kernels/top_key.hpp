// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise_math.hpp"

#include <bit>
#include <cstdint>

/// What top_k() orders by, for both twins.
namespace msstream::ops::kernels {

/// Greater for a greater element, and greatest for NaN; never 0.
MSSTREAM_HOST_DEVICE inline std::uint32_t top_order(float value) {
  constexpr std::uint32_t kSign = 0x80000000U;
  if (value != value) {
    return 0xFFFFFFFFU;
  }
  auto const bits = std::bit_cast<std::uint32_t>(value + 0.0F);  // which makes +0 of -0
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// Whether value_of_order() knows the element: the zeros have one order, and so has all NaN.
MSSTREAM_HOST_DEVICE inline bool tells_value(std::uint32_t order) {
  return order != 0xFFFFFFFFU && order != 0x80000000U;
}
MSSTREAM_HOST_DEVICE inline float value_of_order(std::uint32_t order) {
  constexpr std::uint32_t kSign = 0x80000000U;
  return std::bit_cast<float>((order & kSign) != 0 ? order ^ kSign : ~order);
}

/// An element's order and its column as one number: greater elements have greater keys, and so has
/// the lower column of two equal elements. No two keys of a row are equal, and none is 0.
MSSTREAM_HOST_DEVICE inline std::uint64_t key_of_order(std::uint32_t order, std::uint32_t column) {
  return std::uint64_t{order} << 32U | (0xFFFFFFFFU - column);
}
MSSTREAM_HOST_DEVICE inline std::uint64_t top_key(float value, std::uint32_t column) {
  return key_of_order(top_order(value), column);
}

MSSTREAM_HOST_DEVICE inline std::uint32_t order_of(std::uint64_t top_key) {
  return static_cast<std::uint32_t>(top_key >> 32U);
}
MSSTREAM_HOST_DEVICE inline std::uint32_t column_of(std::uint64_t top_key) {
  return 0xFFFFFFFFU - static_cast<std::uint32_t>(top_key);
}

}  // namespace msstream::ops::kernels
