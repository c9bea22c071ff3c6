// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise_math.hpp"

#include <bit>
#include <cstdint>

/// What top_k() orders by, for both twins.
namespace msstream::ops::kernels {

/// An element and its column as one number: greater elements have greater keys, and so has the
/// lower column of two equal elements. No two keys of a row are equal, and none is 0.
MSSTREAM_HOST_DEVICE inline std::uint64_t top_key(float value, std::uint32_t column) {
  constexpr std::uint32_t kSign = 0x80000000U;
  std::uint32_t order = 0xFFFFFFFFU;  // NaN
  if (value == value) {
    auto const bits = value == 0.0F ? 0U : std::bit_cast<std::uint32_t>(value);
    order = (bits & kSign) != 0 ? ~bits : bits | kSign;
  }
  return std::uint64_t{order} << 32U | (0xFFFFFFFFU - column);
}

MSSTREAM_HOST_DEVICE inline std::uint32_t column_of(std::uint64_t top_key) {
  return 0xFFFFFFFFU - static_cast<std::uint32_t>(top_key);
}

}  // namespace msstream::ops::kernels
