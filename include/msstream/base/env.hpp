// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

/// Options from `MSSTREAM_*` environment variables: each function returns `fallback` when the
/// variable is unset or empty, and throws std::invalid_argument that names the variable and what it
/// accepts when its value is bad.
namespace msstream::env {

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
  require(parsed && number >= least && number <= most,
          variable,
          "='",
          value,
          "': expected a whole number from ",
          least,
          " to ",
          most);
  return number;
}

/// One of a few names.
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
  throw std::invalid_argument(text(variable, "='", value, "': expected one of ", names));
}

[[nodiscard]] inline bool flag(char const* variable, bool fallback) {
  return choice<bool>(
      variable,
      fallback,
      {{"1", true}, {"0", false}, {"true", true}, {"false", false}, {"on", true}, {"off", false}});
}

}  // namespace msstream::env
