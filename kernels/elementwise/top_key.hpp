// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <bit>
#include <cstdint>

/// The keys by which top_k() orders elements, for both the CPU and the CUDA implementation.
namespace msstream::ops::kernels {

/// Returns an integer that orders like the element: greater for a greater element, greatest for
/// NaN, and never 0.
MSSTREAM_HOST_DEVICE inline std::uint32_t top_order(float value) {
  constexpr std::uint32_t kSign = 0x80000000U;
  if (value != value) {
    return 0xFFFFFFFFU;
  }
  auto const bits = std::bit_cast<std::uint32_t>(value + 0.0F);  // turns -0 into +0
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// Returns whether value_of_order() can restore the element from an integer of top_order(): no
/// zero, because both zeros have one integer, and no NaN, because all NaNs have one.
MSSTREAM_HOST_DEVICE inline bool tells_value(std::uint32_t order) {
  return order != 0xFFFFFFFFU && order != 0x80000000U;
}
MSSTREAM_HOST_DEVICE inline float value_of_order(std::uint32_t order) {
  constexpr std::uint32_t kSign = 0x80000000U;
  return std::bit_cast<float>((order & kSign) != 0 ? order ^ kSign : ~order);
}

/// Returns the sort key of an element, made of its top_order() and its column. Greater elements
/// have greater keys; of two equal elements, the one in the lower column has the greater key. No
/// two keys of a row are equal, and none is 0.
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
