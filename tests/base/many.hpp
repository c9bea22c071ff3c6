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

/// Returns whether MSSTREAM_TEST_ALL=1 asks for all that a test can do, as `scripts/nightly.sh
/// stress` and `long` do.
[[nodiscard]] inline bool at_night() {
  static bool const all = env::integer("MSSTREAM_TEST_ALL", 0, 0, 1) == 1;
  return all;
}

/// Like many(), of a quarter of `times`, unless it is at_night().
[[nodiscard]] inline std::uint32_t many_at_night(std::uint32_t times) {
  return many(at_night() ? times : times / 4);
}

/// Chooses one of every few cases of a test, the first among them, and all of them at_night(). With
/// a number that divides no dimension of the cases, each value of each dimension is among the
/// chosen.
class OneOf {
 public:
  explicit OneOf(std::uint32_t number) : number_(number) {}

  /// Returns whether the next case is chosen.
  [[nodiscard]] bool next() { return case_++ % number_ == 0 || at_night(); }

 private:
  std::uint32_t number_;
  std::uint32_t case_ = 0;
};

}  // namespace msstream::testing
