// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <concepts>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

namespace msstream {

namespace detail {

// Both are here so that only argument-dependent lookup finds functions of these names.
void to_string() = delete;
void is_of_msstream() = delete;

template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  { name_of(value) } -> std::convertible_to<std::string_view>;
};

/// A class of this library that describes itself.
template <class T>
concept Described = std::is_class_v<T> && requires(T const& value) {
  { to_string(value) } -> std::same_as<std::string>;
  is_of_msstream(value);
};

[[nodiscard]] std::string text_of(Described auto const& value) {
  return to_string(value);
}
[[nodiscard]] std::string_view text_of(NamedEnum auto value) {
  return name_of(value);
}

template <class T>
concept Printed = Described<T> || NamedEnum<T>;

}  // namespace detail

/// Declared and never defined: distinguishes the classes of this namespace from those of other
/// libraries that have a to_string(). A nested namespace takes part with
/// `using msstream::is_of_msstream;`.
template <class T>
void is_of_msstream(T const& value);

/// Writes the result of `to_string()` or `name_of()`, as in `std::cout << tensor.shape()`, which
/// prints `[2, 3]`. A nested namespace makes it visible with `using msstream::operator<<;`. The
/// caller must include `<ostream>`.
template <detail::Printed T>
std::ostream& operator<<(std::ostream& out, T const& value) {
  return out << detail::text_of(value);
}

}  // namespace msstream
