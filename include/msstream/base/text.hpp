// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <iosfwd>
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

template <class T>
concept SelfDescribing = requires(T const& value) {
  { value.describe() } -> std::convertible_to<std::string>;
};

template <SelfDescribing T>
void append_text(std::string& out, T const& value) {
  out.append(value.describe());
}

template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  { name_of(value) } -> std::convertible_to<std::string_view>;
};

}  // namespace detail

/// Concatenates the pieces: strings, characters, numbers, and any object with `describe()`.
template <class... Pieces>
[[nodiscard]] std::string text(Pieces const&... pieces) {
  std::string out;
  (detail::append_text(out, pieces), ...);
  return out;
}

/// Writes `value.describe()`, or an enumerator's `name_of()`, as in `std::cout << tensor.shape()`,
/// which prints `[2, 3]`. A nested namespace makes the operator visible with `using
/// msstream::operator<<;`. The caller must include <ostream>.
template <detail::SelfDescribing T>
std::ostream& operator<<(std::ostream& out, T const& value) {
  return out << value.describe();
}
template <detail::NamedEnum T>
std::ostream& operator<<(std::ostream& out, T value) {
  return out << name_of(value);
}

}  // namespace msstream
