// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <charconv>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::cli {

/// The range that a number option accepts, both ends included.
template <class T>
struct Range {
  T least = std::numeric_limits<T>::lowest();
  T most = std::numeric_limits<T>::max();
};

template <class T>
concept NumberOption = (std::integral<T> || std::floating_point<T>)&&!std::same_as<T, bool> &&
                       !std::same_as<T, char>;

/// Returns the number that the whole of `value` spells; empty if there is none, or if it is outside
/// the range.
template <NumberOption T>
[[nodiscard]] std::optional<T> parse_option(std::string_view value, Range<T> range) {
  T number{};
  auto const* end = value.data() + value.size();
  auto const result = std::from_chars(value.data(), end, number);
  // NaN is outside every range: comparisons with it are false.
  bool const within = number >= range.least && number <= range.most;
  bool const whole = result.ec == std::errc() && result.ptr == end;
  return whole && within ? std::optional(number) : std::nullopt;
}

/// Returns the numbers of a list such as `1,2,3`, with at least one; empty if one of them is not
/// accepted.
template <NumberOption T>
[[nodiscard]] std::optional<std::vector<T>> parse_option_list(std::string_view value,
                                                              Range<T> range) {
  std::vector<T> numbers;
  while (true) {
    auto const comma = value.find(',');
    auto const number = parse_option(value.substr(0, comma), range);
    if (!number) {
      return std::nullopt;
    }
    numbers.push_back(*number);
    if (comma == std::string_view::npos) {
      return numbers;
    }
    value.remove_prefix(comma + 1);
  }
}

/// Returns the value of a flag: `1`/`0`, `true`/`false`, `yes`/`no`, `on`/`off`; empty for other
/// text.
[[nodiscard]] inline std::optional<bool> parse_flag(std::string_view value) {
  for (std::string_view const yes : {"1", "true", "yes", "on"}) {
    if (value == yes) {
      return true;
    }
  }
  for (std::string_view const no : {"0", "false", "no", "off"}) {
    if (value == no) {
      return false;
    }
  }
  return std::nullopt;
}

/// Returns a description of a range, such as `an integer from 1 to 8` or `a number of at least 0`.
template <NumberOption T>
[[nodiscard]] std::string describe_range(Range<T> range, bool list = false) {
  std::string out =
      std::integral<T> ? (list ? "integers" : "an integer") : (list ? "numbers" : "a number");
  bool const bounded_below = range.least > std::numeric_limits<T>::lowest();
  bool const bounded_above = range.most < std::numeric_limits<T>::max();
  if (bounded_below && bounded_above) {
    out += fmt::format(" from {} to {}", range.least, range.most);
  } else if (bounded_below) {
    out += fmt::format(" of at least {}", range.least);
  } else if (bounded_above) {
    out += fmt::format(" of at most {}", range.most);
  }
  return list ? fmt::format("one or more {} apart by commas", out) : out;
}

}  // namespace msstream::cli
