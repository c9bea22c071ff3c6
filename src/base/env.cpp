// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/env.hpp>

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <system_error>

namespace msstream::env {

namespace detail {

void throw_bad_value(std::string_view variable, std::string_view accepted, std::string_view found) {
  throw BadValue(fmt::format("{}: expected {}, found '{}'", variable, accepted, found));
}

}  // namespace detail

std::string_view value_of(char const* variable) {
  char const* const value =
      std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

std::int64_t integer(char const* variable,
                     std::int64_t fallback,
                     std::int64_t least,
                     std::int64_t most) {
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
                            bounded ? fmt::format("an integer from {} to {}", least, most)
                                    : fmt::format("an integer of at least {}", least),
                            value);
  }
  return number;
}

bool flag(char const* variable, bool fallback) {
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
