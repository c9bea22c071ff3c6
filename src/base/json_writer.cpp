// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <charconv>
#include <cmath>

namespace msstream::detail {

namespace {

/// The length of the first character of a text, in bytes. If the text does not begin with valid
/// UTF-8, the length of the bytes to replace by one U+FFFD (The Unicode Standard, 3.9: the maximal
/// subpart).
struct FirstCharacter {
  std::size_t bytes;
  bool valid;
};

FirstCharacter first_character(std::string_view text) noexcept {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  auto const lead = byte(0);
  if (lead < 0x80) {
    return {1, true};
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return {1, false};
  }
  std::size_t const count = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte has a smaller range after some lead bytes, which excludes overlong forms,
  // surrogates, and numbers above U+10FFFF.
  unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < count; ++i) {
    if (i == text.size() || byte(i) < least || byte(i) > most) {
      return {i, false};
    }
    least = 0x80;
    most = 0xBF;
  }
  return {count, true};
}

template <class Number>
void append_digits(std::string& out, Number number) {
  char digits[32];
  auto const result = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, static_cast<std::size_t>(result.ptr - digits));
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    auto const first = first_character(text);
    if (!first.valid) {
      return false;
    }
    text.remove_prefix(first.bytes);
  }
  return true;
}

void JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  out_ += ": ";
  after_key_ = true;
}

void JsonWriter::value(std::string_view words) {
  separate();
  quote(words);
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) {
    return word("null");
  }
  separate();
  append_digits(out_, number);
}

void JsonWriter::integer(std::int64_t number) {
  separate();
  append_digits(out_, number);
}

void JsonWriter::integer(std::uint64_t number) {
  separate();
  append_digits(out_, number);
}

void JsonWriter::word(std::string_view letters) {
  separate();
  out_ += letters;
}

void JsonWriter::begin(char bracket, Layout layout) {
  separate();
  out_ += bracket;
  open_.push({layout, true});
  indent_ += layout == Layout::lines ? 1 : 0;
}

void JsonWriter::end(char bracket) {
  auto const closed = open_.top();
  open_.pop();
  if (closed.layout == Layout::lines) {
    --indent_;
    if (!closed.empty) {
      start_line();
    }
  }
  out_ += bracket;
}

void JsonWriter::separate() {
  if (after_key_ || open_.empty()) {
    after_key_ = false;
    return;
  }
  auto& around = open_.top();
  bool const on_lines = around.layout == Layout::lines;
  if (!around.empty) {
    out_ += on_lines ? "," : ", ";
  }
  around.empty = false;
  if (on_lines) {
    start_line();
  }
}

void JsonWriter::start_line() {
  out_ += '\n';
  out_.append(indent_, ' ');
}

void JsonWriter::quote(std::string_view words) {
  constexpr char const* hex = "0123456789abcdef";
  out_ += '"';
  while (!words.empty()) {
    auto const [bytes, valid] = first_character(words);
    char const letter = words.front();
    auto const code = static_cast<unsigned char>(letter);
    if (!valid) {
      out_ += "\xEF\xBF\xBD";
    } else if (letter == '"' || letter == '\\') {
      out_ += '\\';
      out_ += letter;
    } else if (code < 0x20) {
      out_ += "\\u00";
      out_ += hex[code >> 4U];
      out_ += hex[code & 15U];
    } else {
      out_ += words.substr(0, bytes);
    }
    words.remove_prefix(bytes);
  }
  out_ += '"';
}

}  // namespace msstream::detail
