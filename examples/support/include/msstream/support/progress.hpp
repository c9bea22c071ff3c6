// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace msstream::support {

/// How progress is shown.
struct ProgressStyle {
  enum class Kind : unsigned char {
    bar,    ///< one line that is drawn over itself, at most ten times a second
    lines,  ///< a line each tenth of the work, for log files
    quiet,  ///< nothing
  };
  Kind kind = Kind::lines;
  bool colour = false;          ///< bars only
  std::size_t width = 80;       ///< of the terminal, in columns
  std::ostream* out = nullptr;  ///< outlives the progress
  char const* unit = "rows";    ///< what is counted

  /// What suits standard error: a bar on a terminal that can draw one, coloured unless NO_COLOR is
  /// set (https://no-color.org), else lines.
  [[nodiscard]] static ProgressStyle of_stderr(bool quiet);
};

/// Shows how far a loop over rows has come, its speed, the loss and the time left.
///
/// Not thread-safe. update() costs a clock reading when nothing is due.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  /// `title` stands in front, as "epoch 2/3". Throws std::invalid_argument for a style that has
  /// something to show and nowhere to.
  Progress(ProgressStyle const& style,
           std::string title,
           std::int64_t total_rows,
           std::function<Clock::time_point()> now = Clock::now);
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  /// Leaves the cursor on a line of its own, also when an exception ends the loop.
  ~Progress();

  void update(std::int64_t rows_done, std::optional<double> loss = std::nullopt);
  /// Shows the final state, whatever was due.
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

/// `0.1250` for 0.125 and 4 digits.
[[nodiscard]] std::string fixed(double value, int digits);
/// `1,234,567`
[[nodiscard]] std::string grouped(std::int64_t number);
/// `0:07`, `12:34`, `1:02:03`
[[nodiscard]] std::string clock_text(std::chrono::seconds duration);

}  // namespace msstream::support
