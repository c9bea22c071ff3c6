// SPDX-License-Identifier: Apache-2.0
// Fuzzes options from environment variables. The value of a variable must either be read as the
// number or word that it spells, or be refused by an error that contains the variable's name.
#include "fuzz.hpp"

#include <msstream/base/detail/env.hpp>

#include <fmt/core.h>
#include <stdlib.h>

#include <optional>
#include <stdexcept>

namespace {

using namespace msstream;
using fuzz::expect;

constexpr char const* kVariable = "MSSTREAM_FUZZED";

/// Calls `read` and returns its result, or nothing if `read` refuses the variable's value. The
/// error must contain the name and the value of the variable.
template <class Read>
auto outcome(std::string const& value, Read read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (std::invalid_argument const& error) {
    std::string_view const message = error.what();
    expect(message.starts_with(fmt::format("{}: expected ", kVariable)) &&
               message.ends_with(fmt::format(", found '{}'", value)),
           "the message does not name variable and value: {}",
           message);
    return std::nullopt;
  }
}

/// Parses an optional minus sign and up to 18 digits, which cannot overflow. Returns nothing for
/// other text.
std::optional<std::int64_t> short_number(std::string_view value) {
  bool const negative = value.starts_with('-');
  value.remove_prefix(negative ? 1 : 0);
  if (value.empty() || value.size() > 18 ||
      value.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  std::int64_t number = 0;
  for (char const digit : value) {
    number = 10 * number + (digit - '0');
  }
  return negative ? -number : number;
}

void check_integer(std::string const& value) {
  constexpr std::int64_t fallback = 7;
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  auto const any = outcome(value, [] { return env::integer(kVariable, fallback, lowest); });
  auto const few = outcome(value, [] { return env::integer(kVariable, fallback, -3, 40); });
  if (value.empty()) {
    expect(any == fallback && few == fallback, "an empty variable does not count as unset");
    return;
  }
  if (auto const expected = short_number(value)) {
    expect(any == expected, "read another number than {}", *expected);
  }
  expect(few == (any && *any >= -3 && *any <= 40 ? any : std::nullopt), "the range is not held");
  if (any) {
    ::setenv(kVariable, fmt::format("{}", *any).c_str(), 1);
    expect(env::integer(kVariable, fallback, lowest) == *any, "a number does not come back");
    ::setenv(kVariable, value.c_str(), 1);
  }
}

void check_names(std::string const& value) {
  auto const flag = outcome(value, [] { return env::flag(kVariable, true); });
  bool const on =
      value.empty() || value == "1" || value == "true" || value == "yes" || value == "on";
  bool const off = value == "0" || value == "false" || value == "no" || value == "off";
  expect(flag == (on || off ? std::optional(on) : std::nullopt), "a flag is not what it spells");

  auto const choice = outcome(value, [] {
    return env::choice(kVariable, 0, {{"none", 1}, {"shared", 2}, {"private", 3}});
  });
  auto const expected = value.empty()        ? std::optional(0)
                        : value == "none"    ? std::optional(1)
                        : value == "shared"  ? std::optional(2)
                        : value == "private" ? std::optional(3)
                                             : std::nullopt;
  expect(choice == expected, "a choice is not what it spells");
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  auto const input = fuzz::as_text(bytes, count);
  std::string const value(input.substr(0, input.find('\0')));
  ::setenv(kVariable, value.c_str(), 1);
  check_integer(value);
  check_names(value);
  ::unsetenv(kVariable);
  return 0;
}
