// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>

namespace msstream::report {

namespace {

constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr auto kBetweenLines = std::chrono::seconds(10);
constexpr std::string_view kEraseToEnd = "\x1b[K";

bool is_set(char const* variable) {
  char const* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): setenv is not used
  return value != nullptr && *value != '\0';
}

}  // namespace

ProgressLine::Style ProgressLine::Style::of_stderr(bool quiet) {
  Style style{.out = &std::cerr};
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

ProgressLine::ProgressLine(std::string title,
                           std::optional<std::int64_t> total,
                           Style const& style,
                           std::function<Clock::time_point()> now)
    : style_(style),
      title_(std::move(title)),
      total_(total ? std::optional(std::max<std::int64_t>(*total, 0)) : total),
      now_(std::move(now)),
      started_(now_()) {
  require(style_.out != nullptr || style_.kind == Style::Kind::quiet,
          "progress: the style names no stream to write to");
}

ProgressLine::~ProgressLine() {
  if (style_.kind == Style::Kind::bar && drawn_ && !is_complete_) {
    *style_.out << '\n';
    style_.out->flush();
  }
}

void ProgressLine::set_one(std::string_view name, double value) {
  auto const found = std::ranges::find(
      metrics_, name, [](auto const& metric) -> std::string_view { return metric.first; });
  if (found != metrics_.end()) {
    found->second = value;
  } else {
    metrics_.emplace_back(name, value);
  }
}

void ProgressLine::set_all(std::initializer_list<Metric> metrics) {
  for (auto const& metric : metrics) {
    if (metric.value) {
      set_one(metric.name, *metric.value);
    }
  }
}

void ProgressLine::set(std::string_view name, double value) {
  std::lock_guard const guard(mutex_);
  set_one(name, value);
}

void ProgressLine::start_at(std::int64_t done) {
  std::lock_guard const guard(mutex_);
  set_done(done);
  first_ = done_;
  tenths_shown_ = total_ ? parts_done(10) : 0;
}

void ProgressLine::set_done(std::int64_t done) {
  done_ =
      std::clamp<std::int64_t>(done, 0, total_.value_or(std::numeric_limits<std::int64_t>::max()));
}

std::int64_t ProgressLine::parts_done(std::int64_t parts) const {
  if (done_ >= *total_) {
    return parts;
  }
  // In floating point, because the product may have more than 64 bits. Only the end is the last
  // part.
  auto const done = static_cast<double>(parts) * static_cast<double>(done_);
  return std::min(static_cast<std::int64_t>(done / static_cast<double>(*total_)), parts - 1);
}

void ProgressLine::update(std::int64_t done, std::initializer_list<Metric> metrics) {
  std::lock_guard const guard(mutex_);
  set_done(done);
  set_all(metrics);
  if (style_.kind == Style::Kind::quiet) {
    return;
  }
  auto const now = now_();
  if (is_due(now)) {
    draw(now);
  }
}

bool ProgressLine::is_due(Clock::time_point now) {
  if (style_.kind == Style::Kind::bar) {
    return !drawn_ || now - *drawn_ >= kBetweenDraws;
  }
  if (!total_) {
    return now - drawn_.value_or(started_) >= kBetweenLines;
  }
  // Prints at most nine lines here, since finish() prints the last one, which says 100%.
  if (done_ >= *total_) {
    return false;
  }
  std::int64_t const tenths = std::min<std::int64_t>(parts_done(10), 9);
  return tenths > std::exchange(tenths_shown_, std::max(tenths_shown_, tenths));
}

void ProgressLine::finish(std::initializer_list<Metric> metrics) {
  std::lock_guard const guard(mutex_);
  set_all(metrics);
  if (is_complete_ || style_.kind == Style::Kind::quiet) {
    return;
  }
  is_complete_ = true;
  draw(now_());
  if (style_.kind == Style::Kind::bar) {
    *style_.out << '\n';
    style_.out->flush();
  }
}

void ProgressLine::draw(Clock::time_point now) {
  drawn_ = now;
  std::string const numbers = figures(now);
  if (style_.kind == Style::Kind::lines) {
    *style_.out << title_ << "  " << numbers << '\n';
    style_.out->flush();
    return;
  }
  // The last column stays free: a terminal wraps after it, and each redraw would start on a new
  // line.
  std::size_t const columns = style_.width > 1 ? style_.width - 1 : 1;
  // Reserves columns for figures of any usual length, so that the bar's width does not change with
  // them.
  std::size_t const figure_columns = 32 + 16 * std::max<std::size_t>(metrics_.size(), 1);
  std::size_t const taken = title_.size() + std::string_view("  []  ").size() + figure_columns;
  std::size_t const bar_width = columns > taken ? std::min<std::size_t>(columns - taken, 40) : 0;
  bool const has_bar = total_ && bar_width >= 5;
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

std::string ProgressLine::bar(std::size_t width) const {
  auto const full = static_cast<std::size_t>(parts_done(static_cast<std::int64_t>(width)));
  std::string const done(full, '#');
  std::string const left(width - full, '.');
  return style_.colour ? fmt::format("\x1b[32m{}\x1b[0m{}", done, left) : done + left;
}

std::string ProgressLine::figures(Clock::time_point now) const {
  double const seconds = std::chrono::duration<double>(now - started_).count();
  constexpr double fastest = 1e18;  // which 64 bits have
  double const speed =
      seconds > 0
          ? std::min(static_cast<double>(done_ - std::min(first_, done_)) / seconds, fastest)
          : 0.0;
  std::string out = total_ ? fmt::format("{}%  ", parts_done(100))
                           : fmt::format("{} {}  ", grouped(done_), style_.unit);
  out += fmt::format("{} {}/s", grouped(std::llround(speed)), style_.unit);
  for (auto const& [name, value] : metrics_) {
    out += fmt::format("  {} {}", name, short_number(value));
  }
  // Limits the times to below 100 hours: years, from a slow first step, mean nothing and may not
  // fit.
  auto const shown = [](double time) {
    return clock_text(std::chrono::seconds(std::llround(std::min(time, 359999.0))));
  };
  if (is_complete_ || (total_ && done_ == *total_)) {
    out += "  took " + shown(seconds);
  } else if (total_ && speed > 0) {
    out += "  left " + shown(static_cast<double>(*total_ - done_) / speed);
  }
  return out;
}

}  // namespace msstream::report
