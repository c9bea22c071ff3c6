// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// An array of int64 or int32 integers, ids or lengths, that a kernel reads.
struct IdArray {
  std::int64_t const* wide = nullptr;    ///< 64-bit integers; null if `narrow` is set
  std::int32_t const* narrow = nullptr;  ///< 32-bit integers; null if `wide` is set

  constexpr IdArray() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): either pointer is an array of ids
  constexpr IdArray(std::int64_t const* ids) : wide(ids) {}
  // NOLINTNEXTLINE(google-explicit-constructor): either pointer is an array of ids
  constexpr IdArray(std::int32_t const* ids) : narrow(ids) {}

  [[nodiscard]] constexpr std::int64_t at(std::int64_t place) const {
    return wide != nullptr ? wide[place] : narrow[place];
  }
};

}  // namespace msstream::ops::kernels
