// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace msstream::cli {

/// The style in which a program shows its progress.
struct ProgressStyle {
  enum class Kind : unsigned char {
    bar,    ///< one line, redrawn in place at most ten times a second
    lines,  ///< a line after each tenth of the work, for log files
    quiet,  ///< shows nothing
  };
  Kind kind = Kind::lines;
  bool colour = false;          ///< colours the bar
  std::size_t width = 80;       ///< width of the terminal, in columns
  std::ostream* out = nullptr;  ///< stream to write to; must outlive the Progress
  char const* unit = "rows";    ///< name of what is counted

  /// Returns the style for standard error: a bar on a terminal that can draw one, coloured unless
  /// NO_COLOR is set (https://no-color.org), otherwise lines.
  [[nodiscard]] static ProgressStyle of_stderr(bool quiet);
};

/// Shows the progress of a loop over rows, its speed, the loss and the time left.
///
/// Not thread-safe. If nothing is due, update() costs only a clock reading.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// Shows `title`, such as "epoch 2/3", at the start of each line. Throws std::invalid_argument
  /// for a style that shows something but has no stream.
  Progress(ProgressStyle const& style,
           std::string title,
           std::int64_t total_rows,
           std::function<Clock::time_point()> now = Clock::now);
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  /// Moves the cursor to a new line after a bar, also if an exception ends the loop.
  ~Progress();

  void update(std::int64_t rows_done, std::optional<double> loss = std::nullopt);
  /// Shows the final state of the progress, even if no update is due.
  void finish(std::optional<double> loss = std::nullopt);

 private:
  void draw(Clock::time_point now);
  [[nodiscard]] std::string figures(Clock::time_point now) const;
  [[nodiscard]] std::string bar(std::size_t width) const;

  ProgressStyle style_;
  std::string title_;
  std::int64_t total_rows_;
  std::function<Clock::time_point()> now_;
  Clock::time_point started_;
  std::int64_t rows_done_ = 0;
  std::optional<double> loss_;
  std::optional<Clock::time_point> drawn_;
  std::int64_t tenths_shown_ = 0;
  bool finished_ = false;
};

/// Formats a number with `digits` decimals, such as `0.1250` for 0.125 and 4 digits.
[[nodiscard]] std::string fixed(double value, int digits);
/// Formats a number with commas, such as `1,234,567`.
[[nodiscard]] std::string grouped(std::int64_t number);
/// Formats a duration, such as `0:07`, `12:34` or `1:02:03`.
[[nodiscard]] std::string clock_text(std::chrono::seconds duration);

}  // namespace msstream::cli
