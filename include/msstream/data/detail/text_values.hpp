// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
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

/// Returns the number that the whole of `value` spells; nothing if there is none, or if it is not
/// finite.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view value) {
  Number number = 0;
  auto const* end = value.data() + value.size();
  auto const result = std::from_chars(value.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) {
    return std::nullopt;
  }
  if constexpr (std::floating_point<Number>) {
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
  }
  return number;
}

}  // namespace msstream::data::detail
