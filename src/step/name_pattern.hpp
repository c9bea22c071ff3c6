// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>

#include <fmt/core.h>

#include <regex>
#include <string>

namespace msstream::detail {

/// Returns the regular expression (ECMAScript) of names of parameters. Throws
/// std::invalid_argument, whose message begins with `operation`, if it is malformed.
[[nodiscard]] inline std::regex name_pattern(char const* operation, std::string const& names) {
  try {
    return std::regex(names);
  } catch (std::regex_error const& error) {
    throw_invalid_argument(
        fmt::format("{}: \"{}\" is no regular expression: {}", operation, names, error.what()));
  }
}

}  // namespace msstream::detail
