// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/env.hpp>

#include <algorithm>
#include <cstdint>

namespace msstream::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
inline constexpr std::int64_t kUsualSlowdown = 10;
#else
inline constexpr std::int64_t kUsualSlowdown = 1;
#endif

/// How often, where nothing slows the program down. A tool that does, and that the build knows
/// nothing of, is told by MSSTREAM_TEST_SLOWDOWN.
[[nodiscard]] inline std::uint32_t many(std::uint32_t times) {
  static auto const slowdown = env::integer("MSSTREAM_TEST_SLOWDOWN", kUsualSlowdown, 1, 1000);
  return std::max(times / static_cast<std::uint32_t>(slowdown), 1U);
}

}  // namespace msstream::testing
