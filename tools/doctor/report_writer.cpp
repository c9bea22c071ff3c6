// SPDX-License-Identifier: Apache-2.0
#include "doctor/report_writer.hpp"

#include "cli/failure_text.hpp"
#include "cli/outputs.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace msstream::doctor {

ReportWriter::ReportWriter(ReportWriterOptions options, Report report)
    : options_(std::move(options)),
      report_(std::move(report)),
      limit_(options_.limit, [this](std::string const& check) { end_hanging(check); }) {
  if (!limit_.problem().empty()) {
    add({failed_line(
        Section::limits, "time-limit", "watch over checks that do not end", limit_.problem())});
  }
}

Findings ReportWriter::findings() {
  return {[this](Lines lines) { add(std::move(lines)); },
          [this](Section section, std::string_view check) { begin(section, check); }};
}

void ReportWriter::add(Lines lines) {
  std::lock_guard const lock(mutex_);
  report_.lines.insert(report_.lines.end(), lines.begin(), lines.end());
}

void ReportWriter::add_failure(std::exception_ptr const& failure) {
  std::lock_guard const lock(mutex_);
  auto const found = sections_.find(check_);
  report_.lines.push_back(failed_line(found == sections_.end() ? Section::host : found->second,
                                      "failed-check",
                                      check_.empty() ? "start" : check_,
                                      cli::failure_text(failure)));
}

void ReportWriter::set_device(int device) {
  std::lock_guard const lock(mutex_);
  report_.device = device;
}

void ReportWriter::begin(Section section, std::string_view check) {
  {
    std::lock_guard const lock(mutex_);
    check_ = check;
    sections_.insert_or_assign(check_, section);
    progress_.show(check);
  }
  limit_.begin(check);
}

void ReportWriter::end_check() {
  limit_.end();
  std::lock_guard const lock(mutex_);
  progress_.clear();
}

int ReportWriter::finish() {
  limit_.end();
  std::lock_guard const lock(mutex_);
  // Otherwise a check hung until now, and the thread that wrote the report ends the process.
  return is_written_ ? 1 : write();
}

int ReportWriter::write() {
  is_written_ = true;
  progress_.clear();
  std::ranges::stable_sort(report_.lines, {}, &Line::section);
  if (options_.json == "-") {
    cli::print(json_text(report_));
  } else {
    cli::print(terminal_text(report_, overlap::TextStyle::of_stdout()));
    cli::write_output("--json", options_.json, json_text(report_));
  }
  return worst_of(report_.lines) >= options_.fail_on ? 1 : 0;
}

bool ReportWriter::give_up(std::string const& check) {
  std::lock_guard const lock(mutex_);
  if (is_written_) {
    return false;
  }
  auto const found = sections_.find(check);
  report_.lines.push_back(
      {found == sections_.end() ? Section::host : found->second,
       "time-limit",
       "check that did not end",
       Level::bad,
       check,
       "It was given up, and the checks behind it were left out. A device that does not answer "
       "needs a restart of the driver or of the computer (dmesg may show an Xid). If it needs "
       "longer only, give it more time by --time-limit."});
  static_cast<void>(write());
  return true;
}

/// Ends the process: the thread of the check may wait for ever.
void ReportWriter::end_hanging(std::string const& check) {
  try {
    if (!give_up(check)) {
      return;
    }
  } catch (...) {
    std::cerr << "msstream-doctor: error: " << cli::failure_text(std::current_exception()) << "\n";
  }
  for (auto const& failure : cli::take_output_failures()) {
    std::cerr << "msstream-doctor: error: " << failure << "\n";
  }
  std::_Exit(1);
}

}  // namespace msstream::doctor
