// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

/// Reads options from `MSSTREAM_*` environment variables. If the variable is unset or empty, each
/// function returns `fallback`; if its value is not accepted, each throws BadValue.
namespace msstream::env {

/// Reports that an environment variable has a value that is not accepted. The message has the
/// variable's name, the accepted values and the value found.
class BadValue : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

namespace detail {

[[noreturn]] void throw_bad_value(std::string_view variable,
                                  std::string_view accepted,
                                  std::string_view found);

}  // namespace detail

[[nodiscard]] std::string_view value_of(char const* variable);

[[nodiscard]] std::int64_t integer(char const* variable,
                                   std::int64_t fallback,
                                   std::int64_t least,
                                   std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// Returns the choice that `accepted` pairs with the variable's value, or `fallback` if the
/// variable is unset or empty. Throws BadValue for a value that is not in `accepted`.
template <class Choice>
[[nodiscard]] Choice choice(char const* variable,
                            Choice fallback,
                            std::initializer_list<std::pair<std::string_view, Choice>> accepted) {
  auto const value = value_of(variable);
  if (value.empty()) {
    return fallback;
  }
  std::string names;
  for (auto const& [name, meaning] : accepted) {
    if (name == value) {
      return meaning;
    }
    names += names.empty() ? "one of " : ", ";
    names += name;
  }
  detail::throw_bad_value(variable, names, value);
}

[[nodiscard]] bool flag(char const* variable, bool fallback);

}  // namespace msstream::env
