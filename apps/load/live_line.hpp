// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/report/progress_line.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace msstream::load {

/// The figures of a load test over its last interval.
struct LoadFigures {
  double queries_per_s = 0;
  std::chrono::nanoseconds p50{0};
  std::chrono::nanoseconds p99{0};
  std::int64_t in_pool = 0;  ///< queries admitted and without an outcome
};

/// Shows the figures of a load test: on a terminal in one line that is redrawn in place, elsewhere
/// in one line per second. For use by one thread.
class LiveLine {
 public:
  /// Prepares the display. `title` is shown at the start of each line.
  LiveLine(report::ProgressLine::Style const& style, std::string title);
  LiveLine(LiveLine const&) = delete;
  LiveLine& operator=(LiveLine const&) = delete;
  /// Moves the cursor to a new line if a line has been drawn on a terminal.
  ~LiveLine();

  /// Returns the time that should pass between calls of show().
  [[nodiscard]] std::chrono::milliseconds period() const noexcept;
  void show(LoadFigures const& figures);

 private:
  report::ProgressLine::Style style_;
  std::string title_;
  bool is_drawn_ = false;
};

}  // namespace msstream::load
