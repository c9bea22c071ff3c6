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

/// Returns the number of repetitions `times`, divided by the usual slowdown of the build, but at
/// least 1. The variable MSSTREAM_TEST_SLOWDOWN replaces the divisor, for tools that the build does
/// not know.
[[nodiscard]] inline std::uint32_t many(std::uint32_t times) {
  static auto const slowdown = env::integer("MSSTREAM_TEST_SLOWDOWN", kUsualSlowdown, 1, 1000);
  return std::max(times / static_cast<std::uint32_t>(slowdown), 1U);
}

/// Like many(), of a quarter of `times`, unless MSSTREAM_TEST_ALL=1 asks for all of them, as
/// `scripts/nightly.sh stress` does.
[[nodiscard]] inline std::uint32_t many_at_night(std::uint32_t times) {
  static bool const all = env::integer("MSSTREAM_TEST_ALL", 0, 0, 1) == 1;
  return many(all ? times : times / 4);
}

}  // namespace msstream::testing
