// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/svg_drawing.hpp"

#include "base/xml_text.hpp"
#include "overlap/show/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

namespace msstream::overlap {

void SvgDrawing::text(double x,
                      double y,
                      double width,
                      std::string_view words,
                      std::string_view attributes,
                      std::string_view colour) {
  auto const room = static_cast<std::size_t>(std::max(1.0, width / kWideLetter));
  elements_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\"{}{}>{}</text>\n",
                           x,
                           y,
                           colour,
                           attributes.empty() ? "" : " ",
                           attributes,
                           detail::xml_text(fit_to(printable(words), room)));
}

void SvgDrawing::box(double x,
                     double y,
                     double width,
                     double height,
                     std::string_view colour,
                     std::string_view attributes) {
  elements_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"{}{}/>\n",
      x,
      y,
      std::max(width, kThinnest),
      height,
      colour,
      attributes.empty() ? "" : " ",
      attributes);
}

void BoxRow::add(double begin, double end, std::string_view colour, std::string_view name) {
  constexpr double kThinnest = SvgDrawing::kThinnest;
  end = std::max(end, begin + kThinnest);
  if (open_ && colour == colour_ && begin - end_ < kThinnest && narrow(begin, end)) {
    end_ = std::max(end_, end);
    name_ = {};
    return;
  }
  flush();
  open_ = true;
  begin_ = begin;
  end_ = end;
  colour_ = colour;
  name_ = name;
}

/// Whether both the open box and the next one are too narrow for more than a pixel's line.
bool BoxRow::narrow(double begin, double end) const {
  return end - begin < 1.5 && (name_.empty() || end_ - begin_ < 1.5);
}

void BoxRow::flush() {
  constexpr double kLetter = 6.1;  // the width of a letter in a box, about
  if (!open_) {
    return;
  }
  open_ = false;
  auto const width = end_ - begin_;
  bool const is_wide = width > 3;
  drawing_.box(begin_,
               y_,
               is_wide ? width - 0.5 : width,
               SvgDrawing::kBox,
               colour_,
               is_wide ? "rx=\"2\"" : "");
  auto const letters = static_cast<std::size_t>(std::max(0.0, (width - 6) / kLetter));
  if (!name_.empty() && letters >= 3) {
    drawing_.add(
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#ffffff\" font-size=\"10\">{}</text>\n",
                    begin_ + 3,
                    y_ + 12.3,
                    detail::xml_text(fit_to(printable(name_), letters))));
  }
}

}  // namespace msstream::overlap
