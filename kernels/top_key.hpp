// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise_math.hpp"

#include <bit>
#include <cstdint>

/// What top_k() orders by, for both twins.
namespace msstream::ops::kernels {

/// What elements are ordered by; never 0.
MSSTREAM_HOST_DEVICE inline std::uint32_t top_order(float value) {
  constexpr std::uint32_t kSign = 0x80000000U;
  if (value != value) {
    return 0xFFFFFFFFU;
  }
  auto const bits = value == 0.0F ? 0U : std::bit_cast<std::uint32_t>(value);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// An element's order and its column as one number: greater elements have greater keys, and so has
/// the lower column of two equal elements. No two keys of a row are equal, and none is 0.
MSSTREAM_HOST_DEVICE inline std::uint64_t top_key_of(std::uint32_t order, std::uint32_t column) {
  return std::uint64_t{order} << 32U | (0xFFFFFFFFU - column);
}
MSSTREAM_HOST_DEVICE inline std::uint64_t top_key(float value, std::uint32_t column) {
  return top_key_of(top_order(value), column);
}

MSSTREAM_HOST_DEVICE inline std::uint32_t column_of(std::uint64_t top_key) {
  return 0xFFFFFFFFU - static_cast<std::uint32_t>(top_key);
}

}  // namespace msstream::ops::kernels
