// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <msstream/base/error.hpp>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

namespace msstream::cli {

namespace {

constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr std::string_view kEraseToEnd = "\x1b[K";

bool is_set(char const* variable) {
  char const* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): setenv is not used
  return value != nullptr && *value != '\0';
}

}  // namespace

ProgressStyle ProgressStyle::of_stderr(bool quiet) {
  ProgressStyle style{.out = &std::cerr};
  char const* terminal = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe)
  bool const dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  if (::isatty(STDERR_FILENO) == 1 && !dumb) {
    style.kind = Kind::bar;
    style.colour = !is_set("NO_COLOR");
    winsize size{};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
      style.width = size.ws_col;
    }
  }
  if (quiet) {
    style.kind = Kind::quiet;
  }
  return style;
}

std::string fixed(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

std::string grouped(std::int64_t number) {
  std::string out = std::to_string(number);
  std::ptrdiff_t const first_digit = number < 0 ? 1 : 0;
  for (auto place = std::ssize(out) - 3; place > first_digit; place -= 3) {
    out.insert(static_cast<std::size_t>(place), 1, ',');
  }
  return out;
}

std::string clock_text(std::chrono::seconds duration) {
  std::int64_t const seconds = duration.count();
  if (seconds >= 3600) {
    return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  }
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

Progress::Progress(ProgressStyle const& style,
                   std::string title,
                   std::int64_t total_rows,
                   std::function<Clock::time_point()> now)
    : style_(style),
      title_(std::move(title)),
      total_rows_(std::max<std::int64_t>(total_rows, 1)),
      now_(std::move(now)),
      started_(now_()) {
  require(style_.out != nullptr || style_.kind == ProgressStyle::Kind::quiet,
          "progress: the style names no stream to write to");
}

Progress::~Progress() {
  if (style_.kind == ProgressStyle::Kind::bar && drawn_ && !finished_) {
    *style_.out << '\n';
    style_.out->flush();
  }
}

void Progress::update(std::int64_t rows_done, std::optional<double> loss) {
  rows_done_ = std::min(rows_done, total_rows_);
  loss_ = loss ? loss : loss_;
  if (style_.kind == ProgressStyle::Kind::quiet) {
    return;
  }
  auto const now = now_();
  if (style_.kind == ProgressStyle::Kind::bar) {
    if (!drawn_ || now - *drawn_ >= kBetweenDraws) {
      draw(now);
    }
    return;
  }
  // Prints at most nine lines here, since finish() prints the last one.
  std::int64_t const tenths = std::min<std::int64_t>(10 * rows_done_ / total_rows_, 9);
  if (tenths > tenths_shown_) {
    tenths_shown_ = tenths;
    draw(now);
  }
}

void Progress::finish(std::optional<double> loss) {
  loss_ = loss ? loss : loss_;
  rows_done_ = total_rows_;
  if (finished_ || style_.kind == ProgressStyle::Kind::quiet) {
    return;
  }
  draw(now_());
  finished_ = true;
  if (style_.kind == ProgressStyle::Kind::bar) {
    *style_.out << '\n';
    style_.out->flush();
  }
}

void Progress::draw(Clock::time_point now) {
  drawn_ = now;
  std::string const numbers = figures(now);
  if (style_.kind == ProgressStyle::Kind::lines) {
    *style_.out << title_ << "  " << numbers << '\n';
    style_.out->flush();
    return;
  }
  // The last column stays free: a terminal wraps after it, and each redraw would start on a new
  // line.
  std::size_t const columns = style_.width > 1 ? style_.width - 1 : 1;
  // Reserves columns for figures of any usual length, so that the bar's width does not change with
  // them.
  constexpr std::size_t figure_columns = 48;
  std::size_t const taken = title_.size() + std::string_view("  []  ").size() + figure_columns;
  std::size_t const bar_width = columns > taken ? std::min<std::size_t>(columns - taken, 40) : 0;
  bool const has_bar = bar_width >= 5;
  std::size_t const before = title_.size() + (has_bar ? bar_width + 6 : 2);
  std::string line =
      has_bar ? fmt::format("{}  [{}]  ", title_, bar(bar_width)) : fmt::format("{}  ", title_);
  line += numbers.substr(0, columns > before ? columns - before : 0);
  if (!has_bar) {
    line.resize(std::min(line.size(), columns));
  }
  // Overwrites the old line with one write and erases only the rest: erasing first would flicker.
  *style_.out << fmt::format("\r{}{}", line, kEraseToEnd);
  style_.out->flush();
}

std::string Progress::bar(std::size_t width) const {
  auto const full =
      static_cast<std::size_t>(static_cast<double>(width) * static_cast<double>(rows_done_) /
                               static_cast<double>(total_rows_));
  std::string const done(full, '#');
  std::string const left(width - full, '.');
  return style_.colour ? fmt::format("\x1b[32m{}\x1b[0m{}", done, left) : done + left;
}

std::string Progress::figures(Clock::time_point now) const {
  double const seconds = std::chrono::duration<double>(now - started_).count();
  double const speed = seconds > 0 ? static_cast<double>(rows_done_) / seconds : 0.0;
  std::string out = fmt::format("{}%  ", 100 * rows_done_ / total_rows_);
  out += fmt::format("{} {}/s", grouped(std::llround(speed)), style_.unit);
  if (loss_) {
    out += fmt::format("  loss {}", fixed(*loss_, 4));
  }
  bool const complete = rows_done_ == total_rows_;
  if (complete || speed > 0) {
    double const left = complete ? seconds : static_cast<double>(total_rows_ - rows_done_) / speed;
    // Limits the time left to below 100 hours: years, from a slow first step, mean nothing and may
    // not fit.
    auto const shown = std::chrono::seconds(std::llround(std::min(left, 359999.0)));
    out += fmt::format("{}{}", complete ? "  took " : "  left ", clock_text(shown));
  }
  return out;
}

}  // namespace msstream::cli
