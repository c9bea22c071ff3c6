// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/progress.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace msstream::support {

/// How a load is going: of the last interval.
struct LoadFigures {
  double queries_per_s = 0;
  std::chrono::nanoseconds p50{0};
  std::chrono::nanoseconds p99{0};
  std::int64_t in_pool = 0;  ///< admitted and without an outcome
};

/// Shows how a load is going: on a terminal in one line that is drawn over itself, else a line a
/// second. One thread.
class LiveLine {
 public:
  /// `title` stands in front.
  LiveLine(ProgressStyle const& style, std::string title);
  LiveLine(LiveLine const&) = delete;
  LiveLine& operator=(LiveLine const&) = delete;
  /// Leaves the cursor on a line of its own.
  ~LiveLine();

  /// How often to show.
  [[nodiscard]] std::chrono::milliseconds period() const noexcept;
  void show(LoadFigures const& figures);

 private:
  ProgressStyle style_;
  std::string title_;
  bool is_drawn_ = false;
};

}  // namespace msstream::support
