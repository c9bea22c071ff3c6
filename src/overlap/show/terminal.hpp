// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/explained.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace msstream::overlap {

/// How texts are laid out for a reader.
struct TextStyle {
  std::size_t width = 100;  ///< in columns
  bool colour = false;      ///< with escape sequences of terminals
  bool unicode = true;      ///< with characters beyond ASCII, such as `µ` and blocks

  /// Returns the style for the process's standard output: as wide as its terminal, or as COLUMNS
  /// says; coloured on a terminal unless NO_COLOR is set or TERM is dumb; with Unicode where the
  /// locale's variables (LC_ALL, LC_CTYPE, LANG) name UTF-8.
  [[nodiscard]] static TextStyle of_stdout();
};

/// Returns a report for a terminal: the verdict, how the time of each device was spent, the
/// findings with their evidence, the notes.
[[nodiscard]] std::string terminal_text(Explained const& explained, TextStyle const& style);

/// Builds texts of lines that fit a width.
class TextLines {
 public:
  /// The meanings of texts, which decide their colours.
  enum class Look : unsigned char { plain, title, strong, faint, good, neutral, warning, bad };

  explicit TextLines(TextStyle const& style) : style_(style) {}

  /// Adds a line as it is, and a line end.
  void line(std::string_view text = {}) { out_.append(text).push_back('\n'); }
  /// Adds a text in as many lines as it needs. The first begins with `lead`, the others with as
  /// many spaces.
  void paragraph(std::string_view lead, std::string_view text, Look look = Look::plain);
  /// Returns the text with the colour of its meaning, if the style has colours.
  [[nodiscard]] std::string in(Look look, std::string_view text) const;

  [[nodiscard]] std::size_t width() const noexcept { return style_.width; }
  /// Returns all lines.
  [[nodiscard]] std::string take();

 private:
  TextStyle style_;
  std::string out_;
};

/// Returns the look of time of one class.
[[nodiscard]] TextLines::Look look_of(TimeClass kind) noexcept;

}  // namespace msstream::overlap
