// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stack>
#include <string>
#include <string_view>

namespace msstream::detail {

/// Returns whether a text is valid UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Appends a JSON text to a string, value by value:
///
///     JsonWriter json(out);
///     json.begin_object();
///     json.member("name", "a");
///     json.key("reads");
///     json.array(std::vector{1, 2});
///     json.end_object();  // {"name": "a", "reads": [1, 2]}
///
/// The caller ends what it begins, and writes a key before each value of an object. Nothing is
/// checked. Texts may have any bytes: those that are not UTF-8 are written as U+FFFD.
class JsonWriter {
 public:
  /// The layout of an object's or array's elements: all on one line, or each on a line of its own,
  /// indented by one space more than the line of the opening bracket.
  enum class Layout : std::uint8_t { line, lines };

  explicit JsonWriter(std::string& out) : out_(out) {}
  JsonWriter(JsonWriter const&) = delete;
  JsonWriter& operator=(JsonWriter const&) = delete;

  void begin_object(Layout layout = Layout::line) { begin('{', layout); }
  void end_object() { end('}'); }
  void begin_array(Layout layout = Layout::line) { begin('[', layout); }
  void end_array() { end(']'); }
  void key(std::string_view name);

  void value(std::string_view words);
  void value(char const* words) { value(std::string_view(words)); }
  template <std::same_as<bool> Flag>
  void value(Flag flag) {
    word(flag ? "true" : "false");
  }
  template <std::integral Number>
    requires(!std::same_as<Number, bool> && !std::same_as<Number, char>)
  void value(Number number) {
    if constexpr (std::signed_integral<Number>) {
      integer(std::int64_t{number});
    } else {
      integer(std::uint64_t{number});
    }
  }
  /// Writes a number with the fewest digits that a reader turns into the same number again. Writes
  /// infinity and NaN, which JSON lacks, as null.
  void value(double number);

  /// Writes a key and its value.
  template <class Value>
  void member(std::string_view name, Value const& of_name) {
    key(name);
    value(of_name);
  }
  /// Writes the elements of a range on one line.
  template <class Range>
  void array(Range const& range) {
    begin_array();
    for (auto const& element : range) {
      value(element);
    }
    end_array();
  }

 private:
  struct Open {
    Layout layout;
    bool empty;
  };

  void begin(char bracket, Layout layout);
  void end(char bracket);
  /// Writes the comma, space or line break before the next key or value, if one is needed.
  void separate();
  void word(std::string_view letters);
  void integer(std::int64_t number);
  void integer(std::uint64_t number);
  void quote(std::string_view words);
  void start_line();

  std::string& out_;
  std::stack<Open> open_;
  std::size_t indent_ = 0;
  bool after_key_ = false;
};

}  // namespace msstream::detail
