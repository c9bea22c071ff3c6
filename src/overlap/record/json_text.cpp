// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/json_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>

namespace msstream::overlap::record {

namespace {

/// Returns the length of the UTF-8 sequence at the beginning of `text`; 0 if it is none.
std::size_t sequence_length(std::string_view text) {
  auto const byte = [text](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  auto const continues = [&](std::size_t count) {
    for (std::size_t at = 1; at <= count; ++at) {
      if ((byte(at) & 0xC0U) != 0x80U) {
        return false;
      }
    }
    return true;
  };
  unsigned const first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xC2 && first < 0xE0) {
    return continues(1) ? 2 : 0;
  }
  if (first >= 0xE0 && first < 0xF0) {
    bool const overlong = first == 0xE0 && byte(1) < 0xA0;
    bool const surrogate = first == 0xED && byte(1) >= 0xA0;
    return continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first < 0xF5) {
    bool const overlong = first == 0xF0 && byte(1) < 0x90;
    bool const too_large = first == 0xF4 && byte(1) >= 0x90;
    return continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

bool is_plain(char character) {
  return static_cast<unsigned char>(character) >= 0x20 && character != '"' && character != '\\' &&
         static_cast<unsigned char>(character) < 0x7F;
}

}  // namespace

JsonText& JsonText::signed_number(std::int64_t value) {
  std::array<char, 24> digits;
  auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out_->append(digits.data(), end);
  return *this;
}

JsonText& JsonText::unsigned_number(std::uint64_t value) {
  std::array<char, 24> digits;
  auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out_->append(digits.data(), end);
  return *this;
}

JsonText& JsonText::microseconds(std::int64_t ns) {
  std::uint64_t magnitude = static_cast<std::uint64_t>(ns);
  if (ns < 0) {
    out_->push_back('-');
    magnitude = 0 - magnitude;
  }
  unsigned_number(magnitude / 1000);
  auto const fraction = static_cast<unsigned>(magnitude % 1000);
  char const digits[] = {'.',
                         static_cast<char>('0' + fraction / 100),
                         static_cast<char>('0' + fraction / 10 % 10),
                         static_cast<char>('0' + fraction % 10)};
  out_->append(digits, sizeof digits);
  return *this;
}

JsonText& JsonText::decimal(double value) {
  if (!std::isfinite(value)) {
    out_->push_back('0');
    return *this;
  }
  std::array<char, 400> digits;
  auto const end =
      std::to_chars(
          digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed, 6)
          .ptr;
  std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  text = text.substr(0, text.find_last_not_of('0') + 1);
  out_->append(text.ends_with('.') ? text.substr(0, text.size() - 1) : text);
  return *this;
}

JsonText& JsonText::quoted(std::string_view text) {
  out_->push_back('"');
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && is_plain(text[plain])) {
      ++plain;
    }
    out_->append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) {
      break;
    }
    std::size_t length = 1;
    char const character = text.front();
    if (character == '"' || character == '\\') {
      out_->push_back('\\');
      out_->push_back(character);
    } else if (static_cast<unsigned char>(character) < 0x20 || character == 0x7F) {
      constexpr char kHex[] = "0123456789abcdef";
      out_->append("\\u00");
      out_->push_back(kHex[static_cast<unsigned char>(character) >> 4U]);
      out_->push_back(kHex[static_cast<unsigned char>(character) & 15U]);
    } else if (length = sequence_length(text); length != 0) {
      out_->append(text.substr(0, length));
    } else {
      out_->append("\\ufffd");
      length = 1;
    }
    text.remove_prefix(length);
  }
  out_->push_back('"');
  return *this;
}

}  // namespace msstream::overlap::record
