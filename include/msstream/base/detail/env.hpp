// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
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

[[noreturn]] inline void throw_bad_value(std::string_view variable,
                                         std::string_view accepted,
                                         std::string_view found) {
  throw BadValue(text(variable, ": expected ", accepted, ", found '", found, "'"));
}

}  // namespace detail

[[nodiscard]] inline std::string_view value_of(char const* variable) {
  char const* const value =
      std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

[[nodiscard]] inline std::int64_t integer(
    char const* variable,
    std::int64_t fallback,
    std::int64_t least,
    std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  auto const value = value_of(variable);
  if (value.empty()) {
    return fallback;
  }
  std::int64_t number = 0;
  auto const [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  bool const parsed = error == std::errc{} && end == value.data() + value.size();
  if (!parsed || number < least || number > most) {
    bool const bounded = most != std::numeric_limits<std::int64_t>::max();
    detail::throw_bad_value(variable,
                            bounded ? text("an integer from ", least, " to ", most)
                                    : text("an integer of at least ", least),
                            value);
  }
  return number;
}

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
    names += text(names.empty() ? "" : ", ", name);
  }
  detail::throw_bad_value(variable, text("one of ", names), value);
}

[[nodiscard]] inline bool flag(char const* variable, bool fallback) {
  auto const value = value_of(variable);
  for (auto const& [yes, no] : {std::pair<std::string_view, std::string_view>{"true", "false"},
                                {"1", "0"},
                                {"yes", "no"},
                                {"on", "off"}}) {
    if (value == yes || value == no) {
      return value == yes;
    }
  }
  if (!value.empty()) {
    detail::throw_bad_value(variable, "true or false (1 or 0, yes or no, on or off)", value);
  }
  return fallback;
}

}  // namespace msstream::env
