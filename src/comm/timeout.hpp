// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace msstream::comm::detail {

/// Returns a text such as "30 s" or "0.25 s".
[[nodiscard]] inline std::string timeout_text(std::chrono::nanoseconds timeout) {
  return fmt::format("{:g} s", std::chrono::duration<double>(timeout).count());
}

/// Returns the time at which a wait that begins now ends. A timeout of a year stands for longer
/// ones, which a clock may not be able to represent.
[[nodiscard]] inline std::chrono::steady_clock::time_point deadline_after(
    std::chrono::nanoseconds timeout) {
  constexpr auto kLongest = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(timeout, kLongest);
}

}  // namespace msstream::comm::detail
