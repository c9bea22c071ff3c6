// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/text.hpp"

#include "base/json_writer.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace msstream::overlap {
namespace {

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Returns the length in bytes of the first `width` characters of a text.
std::size_t bytes_of(std::string_view text, std::size_t width) {
  std::size_t i = 0;
  while (i < text.size() && width > 0) {
    ++i;
    while (i < text.size() && continues(text[i])) {
      ++i;
    }
    --width;
  }
  return i;
}

/// Returns the number of the character at the begin of a valid text, and its length in bytes.
std::pair<char32_t, std::size_t> first_character(std::string_view text) {
  auto const byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  if (byte(0) < 0x80) {
    return {byte(0), 1};
  }
  if (byte(0) < 0xE0) {
    return {((byte(0) & 0x1FU) << 6U) | (byte(1) & 0x3FU), 2};
  }
  if (byte(0) < 0xF0) {
    return {((byte(0) & 0x0FU) << 12U) | ((byte(1) & 0x3FU) << 6U) | (byte(2) & 0x3FU), 3};
  }
  return {((byte(0) & 0x07U) << 18U) | ((byte(1) & 0x3FU) << 12U) | ((byte(2) & 0x3FU) << 6U) |
              (byte(3) & 0x3FU),
          4};
}

/// Returns whether a character is invisible, or changes how the text around it looks.
bool is_control(char32_t c) {
  bool const is_bidi = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
                       (c >= 0x2066 && c <= 0x2069);
  bool const is_line = c == 0x2028 || c == 0x2029;
  bool const is_tag = c == 0xFEFF || (c >= 0xE0000 && c <= 0xE007F);
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || is_bidi || is_line || is_tag;
}

/// Returns the valid text with U+FFFD for all bytes that are not UTF-8.
std::string valid(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::size_t good = 0;
    for (std::size_t const length : {1U, 2U, 3U, 4U}) {
      if (length <= text.size() && detail::is_utf8(text.substr(0, length))) {
        good = length;
        break;
      }
    }
    if (good > 0) {
      out += text.substr(0, good);
    } else {
      out += "\xEF\xBF\xBD";
    }
    text.remove_prefix(std::max<std::size_t>(good, 1));
  }
  return out;
}

}  // namespace

std::string instant_text(Ns instant) {
  // Rounds to µs, and then writes the ms with commas.
  bool const negative = instant < 0;
  auto const us = (std::abs(instant) + 500) / 1000;
  return fmt::format("{}{}.{:03} ms", negative ? "-" : "", report::grouped(us / 1000), us % 1000);
}

std::vector<std::int64_t> rounded_parts(std::vector<double> const& parts) {
  std::vector<std::int64_t> rounded;
  std::vector<double> remainders;
  for (double const part : parts) {
    rounded.push_back(static_cast<std::int64_t>(std::floor(part)));
    remainders.push_back(part - std::floor(part));
  }
  auto const sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  auto missing = static_cast<std::int64_t>(std::llround(sum)) -
                 std::accumulate(rounded.begin(), rounded.end(), std::int64_t{0});
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](auto i) { return remainders[i]; });
  for (auto const i : order) {
    if (missing <= 0) {
      break;
    }
    ++rounded[i];
    --missing;
  }
  return rounded;
}

std::string printable(std::string_view text) {
  std::string kept;
  if (!detail::is_utf8(text)) {
    kept = valid(text);
    text = kept;
  }
  std::string out;
  while (!text.empty()) {
    auto const [character, bytes] = first_character(text);
    if (!is_control(character)) {
      out += text.substr(0, bytes);
    } else if (character < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(character));
    } else {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(character));
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return !continues(byte); }));
}

std::string fit_to(std::string_view text, std::size_t width) {
  auto const whole = width_of(text);
  if (whole <= width) {
    return std::string(text);
  }
  if (width < 2) {
    return width == 0 ? "" : "…";
  }
  // The begin of a kernel's name tells more than its end.
  auto const tail = (width - 1) / 3;
  auto const head = width - 1 - tail;
  std::string out(text.substr(0, bytes_of(text, head)));
  out += "…";
  out += text.substr(bytes_of(text, whole - tail));
  return out;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  width = std::max<std::size_t>(width, 8);
  std::vector<std::string> lines;
  std::string line;
  std::size_t used = 0;
  auto const end_line = [&] {
    lines.push_back(std::exchange(line, {}));
    used = 0;
  };
  while (!text.empty()) {
    auto const space = text.find(' ');
    auto word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (used > 0 && used + 1 + width_of(word) > width) {
      end_line();
    }
    while (width_of(word) > width) {
      auto const part = bytes_of(word, width);
      line += word.substr(0, part);
      word.remove_prefix(part);
      end_line();
    }
    if (word.empty()) {
      continue;
    }
    line += used > 0 ? " " : "";
    line += word;
    used += (used > 0 ? 1 : 0) + width_of(word);
  }
  if (used > 0 || lines.empty()) {
    end_line();
  }
  return lines;
}

std::string in_ascii(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kReplaced{{
      {"µ", "u"},
      {"·", "-"},
      {"…", "..."},
      {"→", "->"},
      {"█", "#"},
      {"─", "-"},
      {"×", "x"},
      {"≥", ">="},
  }};
  std::string out;
  while (!text.empty()) {
    auto const found = std::ranges::find_if(
        kReplaced, [&](auto const& replaced) { return text.starts_with(replaced.first); });
    if (found != kReplaced.end()) {
      out += found->second;
      text.remove_prefix(found->first.size());
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace msstream::overlap
