// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/env.hpp>

#include <algorithm>
#include <cstdint>

namespace msstream::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
inline constexpr std::int64_t kUsualSlowdown = 10;
#else
inline constexpr std::int64_t kUsualSlowdown = 1;
#endif

/// Returns `times`, divided by the slowdown of the build. If a tool that the build does not know
/// slows the program down, MSSTREAM_TEST_SLOWDOWN gives the factor.
[[nodiscard]] inline std::uint32_t many(std::uint32_t times) {
  static auto const slowdown = env::integer("MSSTREAM_TEST_SLOWDOWN", kUsualSlowdown, 1, 1000);
  return std::max(times / static_cast<std::uint32_t>(slowdown), 1U);
}

}  // namespace msstream::testing
