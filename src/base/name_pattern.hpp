// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace msstream::detail {

/// Returns whether a name matches a pattern, in which `*` stands for any characters and `?` for
/// one.
[[nodiscard]] constexpr bool matches_pattern(std::string_view pattern,
                                             std::string_view name) noexcept {
  std::size_t p = 0;
  std::size_t n = 0;
  // After the last `*`: where the pattern goes on, and where the name would go on if the `*` took
  // one character more.
  std::size_t after_star = std::string_view::npos;
  std::size_t retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      retry = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace msstream::detail
