// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cctype>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream::trace {

/// Parses a JSON text by the grammar of RFC 8259, to check it, and keeps no values.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  void read_all() {
    value();
    blanks();
    expect(place_ == text_.size(), "the end");
  }

 private:
  [[nodiscard]] char peek() const { return place_ < text_.size() ? text_[place_] : '\0'; }
  void expect(bool holds, std::string_view what) const {
    if (!holds) {
      throw std::runtime_error(fmt::format("expected {} at byte {}", what, place_));
    }
  }
  void take(char wanted) {
    expect(peek() == wanted, std::string_view(&wanted, 1));
    ++place_;
  }
  bool take_if(char wanted) {
    bool const there = peek() == wanted;
    place_ += there ? 1 : 0;
    return there;
  }
  void blanks() {
    while (std::string_view(" \t\r\n").find(peek()) != std::string_view::npos && peek() != '\0') {
      ++place_;
    }
  }

  void value() {
    blanks();
    switch (peek()) {
      case '{':
        return members('{', '}', true);
      case '[':
        return members('[', ']', false);
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }
  void members(char open, char close, bool named) {
    take(open);
    blanks();
    if (take_if(close)) {
      return;
    }
    do {
      if (named) {
        blanks();
        string();
        blanks();
        take(':');
      }
      value();
      blanks();
    } while (take_if(','));
    take(close);
  }
  void string() {
    take('"');
    while (peek() != '"') {
      expect(static_cast<unsigned char>(peek()) >= 0x20, "a printable character");
      if (take_if('\\')) {
        bool const by_code = peek() == 'u';
        expect(by_code || std::string_view("\"\\/bfnrt").find(peek()) != std::string_view::npos,
               "an escape");
        for (int digit = 0; by_code && digit < 4; ++digit) {
          ++place_;
          expect(std::isxdigit(static_cast<unsigned char>(peek())) != 0, "a hexadecimal digit");
        }
      }
      ++place_;
    }
    ++place_;
  }
  void word(std::string_view wanted) {
    expect(text_.substr(place_, wanted.size()) == wanted, wanted);
    place_ += wanted.size();
  }
  void digits() {
    expect(std::isdigit(static_cast<unsigned char>(peek())) != 0, "a digit");
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      ++place_;
    }
  }
  void number() {
    take_if('-');
    digits();
    if (take_if('.')) {
      digits();
    }
    if (take_if('e') || take_if('E')) {
      if (!take_if('+')) {
        take_if('-');
      }
      digits();
    }
  }

  std::string_view text_;
  std::size_t place_ = 0;
};

/// Returns the reason why the text is not JSON, or an empty string if it is.
inline std::string json_fault(std::string_view text) {
  try {
    JsonReader(text).read_all();
    return {};
  } catch (std::runtime_error const& fault) {
    return fault.what();
  }
}

}  // namespace msstream::trace
