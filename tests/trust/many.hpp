// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::testing {

/// How often, in a build that a sanitizer or missing optimisation does not slow down.
[[nodiscard]] constexpr std::uint32_t many(std::uint32_t times) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  return times / 10;
#else
  return times;
#endif
}

}  // namespace msstream::testing
