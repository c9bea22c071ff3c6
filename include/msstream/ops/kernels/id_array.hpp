// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// Integers of either width that a kernel reads: ids, or lengths.
struct IdArray {
  std::int64_t const* wide = nullptr;    ///< or null: then `narrow` counts
  std::int32_t const* narrow = nullptr;  ///< or null

  constexpr IdArray() = default;
  constexpr IdArray(std::int64_t const* ids) : wide(ids) {}  // NOLINT(google-explicit-constructor)
  constexpr IdArray(std::int32_t const* ids)
      : narrow(ids) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] constexpr std::int64_t at(std::int64_t place) const {
    return wide != nullptr ? wide[place] : narrow[place];
  }
};

}  // namespace msstream::ops::kernels
