// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace msstream::data::detail {

/// Returns a value shortened and printable for a message: the value may be long and hold any bytes.
[[nodiscard]] inline std::string shown(std::string_view value) {
  constexpr std::size_t most = 40;
  std::string out = "'";
  for (char const character : value.substr(0, most)) {
    bool const printable = static_cast<unsigned char>(character) >= 0x20 && character != 0x7F;
    out.push_back(printable ? character : '?');
  }
  return out + (value.size() > most ? "…'" : "'");
}

/// Returns whether the absolute value of a number with a fraction or an exponent, as
/// std::from_chars() reads it, is below 1.
[[nodiscard]] inline bool is_below_one(std::string_view number) {
  auto const mantissa = number.substr(0, std::min(number.find_first_of("eE"), number.size()));
  auto const point = static_cast<std::int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  auto const first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) {
    return true;
  }
  auto const digit = static_cast<std::int64_t>(first);
  auto const before_point =
      point - digit + (digit > point ? 1 : 0);  // the value is 0.… times 10^it
  auto exponent = number.substr(std::min(mantissa.size() + 1, number.size()));
  exponent.remove_prefix(exponent.starts_with('+') ? 1 : 0);
  std::int64_t power = 0;
  auto const read = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
  return read.ec == std::errc::result_out_of_range ? exponent.starts_with('-')
                                                   : power < 1 - before_point;
}

/// Returns the number that the whole of `value` spells; nothing if there is none, or if it is too
/// large. A number that is too small becomes 0 or a denormal one.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view value) {
  Number number = 0;
  auto const* end = value.data() + value.size();
  auto const result = std::from_chars(value.data(), end, number);
  if (result.ptr != end) {
    return std::nullopt;
  }
  if constexpr (std::floating_point<Number>) {
    if (result.ec == std::errc::result_out_of_range) {
      if (!is_below_one(value)) {
        return std::nullopt;
      }
      if constexpr (sizeof(Number) < sizeof(double)) {
        return static_cast<Number>(parse_number<double>(value).value_or(0.0));
      }
      return value.starts_with('-') ? -Number(0) : Number(0);
    }
  }
  if (result.ec != std::errc()) {
    return std::nullopt;
  }
  if constexpr (std::floating_point<Number>) {
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
  }
  return number;
}

}  // namespace msstream::data::detail
