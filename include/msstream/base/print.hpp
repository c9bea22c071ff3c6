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

/// Writes what `describe()` or `name_of()` gives: `std::cout << tensor.shape()` is `[2, 3]`. A
/// room's namespace brings it in with `using msstream::operator<<;`. Who prints includes <ostream>.
template <detail::SelfDescribing T>
std::ostream& operator<<(std::ostream& out, T const& value) {
  return out << value.describe();
}
template <detail::NamedEnum T>
std::ostream& operator<<(std::ostream& out, T value) {
  return out << name_of(value);
}

}  // namespace msstream
