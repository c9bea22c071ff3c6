// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>

#include <concepts>
#include <iosfwd>
#include <string_view>
#include <type_traits>

namespace msstream {

namespace detail {

template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  { name_of(value) } -> std::convertible_to<std::string_view>;
};

}  // namespace detail

/// Writes the result of `describe()` or `name_of()`, as in `std::cout << tensor.shape()`, which
/// prints `[2, 3]`. A nested namespace makes it visible with `using msstream::operator<<;`. The
/// caller must include <ostream>.
template <detail::SelfDescribing T>
std::ostream& operator<<(std::ostream& out, T const& value) {
  return out << value.describe();
}
template <detail::NamedEnum T>
std::ostream& operator<<(std::ostream& out, T value) {
  return out << name_of(value);
}

}  // namespace msstream
