// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/numbers.hpp"

#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>

namespace msstream::overlap {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Cuts the digits off the begin of a text, and returns them.
std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) {
    ++count;
  }
  auto const digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

/// Reads an exponent behind its 'e'. False if it is none.
bool read_exponent(std::string_view text, int& exponent) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  return error == std::errc() && end == text.data() + text.size() && exponent > -1000 &&
         exponent < 1000;
}

/// Appends a decimal digit. False on overflow.
bool append(std::uint64_t& value, unsigned digit) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value > (most - digit) / 10) {
    return false;
  }
  value = value * 10 + digit;
  return true;
}

}  // namespace

std::optional<std::int64_t> scaled_decimal(std::string_view text, int digits) {
  bool const negative = text.starts_with('-');
  if (negative) {
    text.remove_prefix(1);
  }
  auto const whole = take_digits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
  }
  int exponent = 0;
  bool const is_number =
      !whole.empty() && (text.empty() || ((text.front() == 'e' || text.front() == 'E') &&
                                          read_exponent(text.substr(1), exponent)));
  if (!is_number) {
    return std::nullopt;
  }
  // `left` digits belong to the result; the next one rounds it.
  auto left = static_cast<std::int64_t>(whole.size()) + exponent + digits;
  std::uint64_t value = 0;
  bool round_up = false;
  for (auto const part : {whole, fraction}) {
    for (char const c : part) {
      if (left > 0 && !append(value, static_cast<unsigned>(c - '0'))) {
        return std::nullopt;
      }
      round_up = round_up || (left == 0 && c >= '5');
      --left;
    }
  }
  for (; left > 0 && value != 0; --left) {
    if (!append(value, 0)) {
      return std::nullopt;
    }
  }
  if (round_up && value < static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    ++value;
  }
  auto const result = static_cast<std::int64_t>(value);
  return negative ? -result : result;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  if (!text.starts_with("0x")) {
    return scaled_decimal(text, 0);
  }
  text.remove_prefix(2);
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace msstream::overlap
