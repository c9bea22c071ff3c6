// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/findings.hpp"
#include "doctor/progress.hpp"
#include "doctor/report.hpp"
#include "doctor/time_limit.hpp"

#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace msstream::doctor {

/// Where a run writes its report, and what ends it.
struct ReportWriterOptions {
  std::string json = {};  ///< the file of the JSON; - for the standard output; empty for none
  Level fail_on = Level::bad;
  std::chrono::milliseconds limit{60'000};  ///< of each check
};

/// Collects lines, and writes the report once: at the end, or when a check hangs. The latter
/// happens on another thread, and ends the process. A mutex protects all that both use.
class ReportWriter {
 public:
  /// Adds a bad line if the thread that watches the checks cannot start.
  ReportWriter(ReportWriterOptions options, Report report);

  /// Returns functions that add to this object, which must outlive them.
  [[nodiscard]] Findings findings();
  void add(Lines lines);
  /// Adds a bad line which says that the check that runs threw `failure`.
  void add_failure(std::exception_ptr const& failure);
  void set_device(int device);
  /// Ends the check that runs, and removes its name from the terminal.
  void end_check();
  /// Ends the check that runs, writes the report, and returns the exit status.
  int finish();
  /// Adds a bad line about a check that hangs, and writes the report. Returns false, and does
  /// nothing, if the report is written already.
  bool give_up(std::string const& check);

 private:
  void begin(Section section, std::string_view check);
  int write();
  void end_hanging(std::string const& check);

  ReportWriterOptions options_;
  std::mutex mutex_;  ///< of all members but limit_, and of the output
  Report report_;
  Progress progress_;
  std::map<std::string, Section, std::less<>> sections_;  ///< of the checks that began
  std::string check_;                                     ///< that began last
  bool is_written_ = false;
  TimeLimit limit_;  ///< the last member, since its thread uses the others
};

}  // namespace msstream::doctor
