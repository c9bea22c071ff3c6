// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"
#include "overlap/recording/recording.hpp"

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {

/// The path that stands for the standard output.
inline constexpr char const* kStdout = "-";

/// The options of a report.
struct ReportOptions {
  std::vector<std::string> files;
  bool compare = false;
  std::string window;
  int device = kUnknown;
  int rank = kUnknown;
  std::string json;
  std::string html;
  std::string svg;
  bool svg_timeline = false;
  std::string fail_on;
  bool quiet = false;
  bool list_causes = false;
  std::string explain;
  bool shows_version = false;

  /// Whether an output takes the place of the text on the standard output.
  [[nodiscard]] bool prints_output() const {
    return json == kStdout || html == kStdout || svg == kStdout;
  }
};

[[nodiscard]] ReportOptions parse_report_options(cli::Arguments const& arguments);

/// Throws cli::UsageError if options contradict each other, or an output cannot be written.
void check(ReportOptions const& options);

/// Calls `choose`, whose errors are mistakes in the value of an option.
template <class Choose>
auto chosen_by(std::string_view option, Choose choose) {
  try {
    return choose();
  } catch (std::invalid_argument const& error) {
    throw cli::UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

}  // namespace msstream::overlap
