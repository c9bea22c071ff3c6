// SPDX-License-Identifier: Apache-2.0
#include "load/live_line.hpp"

#include <msstream/report/progress_line.hpp>
#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

namespace msstream::load {

LiveLine::LiveLine(report::ProgressLine::Style const& style, std::string title)
    : style_(style), title_(std::move(title)) {}

LiveLine::~LiveLine() {
  if (is_drawn_ && style_.kind == report::ProgressLine::Style::Kind::bar) {
    *style_.out << '\n';
    style_.out->flush();
  }
}

std::chrono::milliseconds LiveLine::period() const noexcept {
  return std::chrono::milliseconds(style_.kind == report::ProgressLine::Style::Kind::bar ? 100
                                                                                         : 1000);
}

void LiveLine::show(LoadFigures const& figures) {
  if (style_.kind == report::ProgressLine::Style::Kind::quiet) {
    return;
  }
  auto const in_ms = [](std::chrono::nanoseconds time) {
    return report::fixed(std::chrono::duration<double, std::milli>(time).count(), 3);
  };
  auto line = fmt::format("{}  {} q/s  p50 {} ms  p99 {} ms  in the pool {}",
                          title_,
                          report::grouped(std::llround(figures.queries_per_s)),
                          in_ms(figures.p50),
                          in_ms(figures.p99),
                          report::grouped(figures.in_pool));
  if (style_.kind == report::ProgressLine::Style::Kind::lines) {
    *style_.out << line << '\n';
  } else {
    // Leaves the last column free: a terminal wraps after it.
    line.resize(std::min(line.size(), style_.width > 1 ? style_.width - 1 : 1));
    *style_.out << fmt::format("\r{}\x1b[K", line);
  }
  style_.out->flush();
  is_drawn_ = true;
}

}  // namespace msstream::load
