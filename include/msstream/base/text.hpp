// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/described.hpp>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace msstream {

namespace detail {

inline void append_text(std::string& out, std::string_view piece) {
  out.append(piece);
}
inline void append_text(std::string& out, char piece) {
  out.push_back(piece);
}

template <std::same_as<bool> Flag>
void append_text(std::string& out, Flag piece) {
  out.append(piece ? "true" : "false");
}

template <class Number>
  requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool> &&
           !std::same_as<Number, char>)
void append_text(std::string& out, Number number) {
  char digits[64];
  auto const result = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, static_cast<std::size_t>(result.ptr - digits));
}

template <Described T>
void append_text(std::string& out, T const& value) {
  out.append(to_string(value));
}
void append_text(std::string& out, NamedEnum auto value) {
  out.append(name_of(value));
}

}  // namespace detail

/// Concatenates the pieces: strings, characters, numbers, and any object with `to_string()`.
template <class... Pieces>
[[nodiscard]] std::string text(Pieces const&... pieces) {
  std::string out;
  (detail::append_text(out, pieces), ...);
  return out;
}

}  // namespace msstream
