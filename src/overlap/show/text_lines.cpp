// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/terminal.hpp"
#include "overlap/show/text.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace msstream::overlap {
namespace {

std::string_view variable(char const* name) {
  auto const* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets variables
  return value == nullptr ? std::string_view() : value;
}

bool names_utf8(std::string_view locale) {
  return locale.find("UTF-8") != std::string_view::npos ||
         locale.find("utf8") != std::string_view::npos ||
         locale.find("utf-8") != std::string_view::npos;
}

}  // namespace

TextStyle TextStyle::of_stdout() {
  TextStyle style;
  bool const is_terminal = ::isatty(STDOUT_FILENO) == 1;
  winsize size{};
  if (is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = size.ws_col;
  } else if (auto const columns = variable("COLUMNS"); !columns.empty()) {
    std::from_chars(columns.data(), columns.data() + columns.size(), style.width);
  }
  style.width = std::clamp<std::size_t>(style.width, 40, 160);
  style.colour = is_terminal && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  // The first variable that is set decides, as in the C library.
  for (auto const* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (auto const locale = variable(name); !locale.empty()) {
      style.unicode = names_utf8(locale);
      return style;
    }
  }
  style.unicode = false;
  return style;
}

void TextLines::paragraph(std::string_view lead, std::string_view text, Look look) {
  auto const indent = width_of(lead);
  auto const room = style_.width > indent ? style_.width - indent : 0;
  bool is_first = true;
  for (auto const& part : wrapped(text, room)) {
    line((is_first ? std::string(lead) : std::string(indent, ' ')) + in(look, part));
    is_first = false;
  }
}

std::string TextLines::in(Look look, std::string_view text) const {
  static constexpr std::array<std::string_view, 8> kCodes{
      "", "\x1b[1m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[34m", "\x1b[33m", "\x1b[31m"};
  auto const code = kCodes.at(static_cast<std::size_t>(look));
  if (!style_.colour || code.empty()) {
    return std::string(text);
  }
  return std::string(code).append(text).append("\x1b[0m");
}

std::string TextLines::take() {
  auto out = std::exchange(out_, {});
  return style_.unicode ? out : in_ascii(out);
}

}  // namespace msstream::overlap
