// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace msstream::report {

/// Formats a number with `digits` decimals, such as `0.1250` for 0.125 and 4 digits.
[[nodiscard]] std::string fixed(double value, int digits);
/// Formats a number with four decimals, or with four digits and an exponent, if decimals would show
/// few of its digits: `0.2500`, `1.25e-05`, `2.5e+09`.
[[nodiscard]] std::string short_number(double value);
/// Formats a number with commas, such as `1,234,567`.
[[nodiscard]] std::string grouped(std::int64_t number);
/// Formats a duration, such as `0:07`, `12:34` or `1:02:03`.
[[nodiscard]] std::string clock_text(std::chrono::seconds duration);

}  // namespace msstream::report
