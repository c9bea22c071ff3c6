// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::report {

/// Shows the progress of a loop, its speed, live metrics and the time left.
///
///     report::ProgressLine progress("epoch 1/3", rows_in_all);
///     …
///     progress.update(rows_done, {{"loss", loss}, {"AUC", auc}});
///     progress.finish();
///
/// prints on a terminal, in one line that is redrawn in place,
///
///     epoch 1/3  [########........]  50%  1,234,567 rows/s  loss 0.4512  AUC 0.7901  left 0:12
///
/// Thread-safe. If nothing is due, update() costs a clock reading and a lock.
class ProgressLine {
 public:
  /// The clock of speeds and of the time left.
  using Clock = std::chrono::steady_clock;

  /// The style in which a program shows its progress.
  struct Style {
    /// The form of the progress.
    enum class Kind : unsigned char {
      bar,    ///< one line, redrawn in place at most ten times a second
      lines,  ///< a line after each tenth of the work, or each ten seconds, for log files; the one
              ///< with 100% by finish()
      quiet,  ///< shows nothing
    };
    Kind kind = Kind::lines;      ///< the form
    bool colour = false;          ///< colours the bar
    std::size_t width = 80;       ///< width of the terminal, in columns
    std::ostream* out = nullptr;  ///< stream to write to; must outlive the ProgressLine
    char const* unit = "rows";    ///< name of what is counted

    /// Returns the style for standard error: a bar on a terminal that can draw one, coloured unless
    /// NO_COLOR is set (https://no-color.org), otherwise lines.
    [[nodiscard]] static Style of_stderr(bool quiet = false);
  };

  /// The value of a metric, with the name that is shown before it. An empty value changes nothing:
  /// a metric that has none yet is not shown.
  struct Metric {
    std::string_view name;        ///< such as "loss"
    std::optional<double> value;  ///< empty: unknown
  };

  /// Shows `title` at the start of each line. If the number of rows in all is not known, `total` is
  /// empty, and neither a bar nor the time left is shown. Throws std::invalid_argument for a style
  /// that shows something but has no stream.
  ProgressLine(std::string title,
               std::optional<std::int64_t> total,
               Style const& style = Style::of_stderr(),
               std::function<Clock::time_point()> now = Clock::now);
  ProgressLine(ProgressLine const&) = delete;
  ProgressLine& operator=(ProgressLine const&) = delete;
  /// Moves the cursor to a new line after a bar, also if an exception ends the loop.
  ~ProgressLine();

  /// Sets what an earlier run has done already, which does not count for the speed. A number that
  /// is negative counts as 0, and one above the total as the total, here and in update().
  void start_at(std::int64_t done);
  /// Sets what is done so far and the values of metrics, and shows them if that is due. A metric
  /// keeps its value until it gets another one; metrics are shown in the order in which they first
  /// got one.
  void update(std::int64_t done, std::initializer_list<Metric> metrics = {});
  /// Sets the value of a metric without showing it: the next update() does.
  void set(std::string_view name, double value);
  /// Shows what the last update() has set as the final state, even if no update is due: 100% only
  /// if all of the total is done.
  void finish(std::initializer_list<Metric> metrics = {});

 private:
  void set_done(std::int64_t done);
  /// Returns how many of `parts` equal parts of the total are done.
  [[nodiscard]] std::int64_t parts_done(std::int64_t parts) const;
  void set_all(std::initializer_list<Metric> metrics);
  void set_one(std::string_view name, double value);
  [[nodiscard]] bool is_due(Clock::time_point now);
  void draw(Clock::time_point now);
  [[nodiscard]] std::string figures(Clock::time_point now) const;
  [[nodiscard]] std::string bar(std::size_t width) const;

  std::mutex mutex_;  ///< for all members below
  Style style_;
  std::string title_;
  std::optional<std::int64_t> total_;
  std::function<Clock::time_point()> now_;
  Clock::time_point started_;
  std::int64_t first_ = 0;  ///< what an earlier run has done
  std::int64_t done_ = 0;
  std::vector<std::pair<std::string, double>> metrics_;
  std::optional<Clock::time_point> drawn_;
  std::int64_t tenths_shown_ = 0;
  bool is_complete_ = false;
};

}  // namespace msstream::report
