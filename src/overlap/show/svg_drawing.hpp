// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace msstream::overlap {

/// The elements of a picture in SVG, in the order in which they are drawn. Lengths are in pixels.
class SvgDrawing {
 public:
  static constexpr std::string_view kText = "#1c2430";  ///< the colour of texts
  static constexpr std::string_view kFaint = "#5d6878";
  static constexpr std::string_view kLine = "#d9dee6";
  static constexpr double kWideLetter = 6.6;  ///< the width of a letter, about
  static constexpr double kBox = 17;          ///< the height of a box in a row
  static constexpr double kThinnest = 0.4;    ///< the width of the narrowest box

  /// Writes an untrusted text, cut to a width. `y` is the line on which its letters stand.
  void text(double x,
            double y,
            double width,
            std::string_view words,
            std::string_view attributes = {},
            std::string_view colour = kText);
  void box(double x,
           double y,
           double width,
           double height,
           std::string_view colour,
           std::string_view attributes = {});
  /// Draws an element as it is written.
  void add(std::string_view element) { elements_ += element; }
  /// Returns the elements, and has none afterwards.
  [[nodiscard]] std::string take() { return std::move(elements_); }

 private:
  std::string elements_;
};

/// Draws boxes of one lane, ordered by begin. Boxes that are too close to be told apart become one.
class BoxRow {
 public:
  /// `y` is the top of the boxes.
  BoxRow(SvgDrawing& drawing, double y) : drawing_(drawing), y_(y) {}
  ~BoxRow() { flush(); }
  BoxRow(BoxRow const&) = delete;
  BoxRow& operator=(BoxRow const&) = delete;

  /// Draws a box with its name, as far as there is room for it.
  void add(double begin, double end, std::string_view colour, std::string_view name);

 private:
  [[nodiscard]] bool narrow(double begin, double end) const;
  void flush();

  SvgDrawing& drawing_;
  double y_;
  bool open_ = false;
  double begin_ = 0;
  double end_ = 0;
  std::string_view colour_;
  std::string_view name_;
};

}  // namespace msstream::overlap
