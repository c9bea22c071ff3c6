// SPDX-License-Identifier: Apache-2.0
#include "finding_log.hpp"

#include <msstream/base/text.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <stdexcept>

namespace msstream::detail {

namespace {

std::atomic<std::uint64_t> told_quietly{0};

/// What goes to each file: the findings of all checkers that were told to write there.
struct ReportFiles {
  std::mutex mutex;
  std::map<std::string, std::map<FindingLog const*, std::vector<CheckReport>>> findings;
  std::map<std::string, std::vector<CheckReport>> of_those_gone;
};
/// Never destroyed: checkers may go after everything else.
ReportFiles& report_files() {
  static auto& all = *new ReportFiles;
  return all;
}

}  // namespace

std::uint64_t FindingLog::quiet_findings() noexcept {
  return told_quietly.load(std::memory_order_relaxed);
}

FindingLog::~FindingLog() {
  auto& files = report_files();
  std::lock_guard const guard(files.mutex);
  auto const written = files.findings.find(options_.report_path);
  if (written == files.findings.end()) {
    return;
  }
  if (auto own = written->second.extract(this); !own.empty()) {
    auto& gone = files.of_those_gone[options_.report_path];
    gone.insert(gone.end(), own.mapped().begin(), own.mapped().end());
  }
}

void FindingLog::publish(std::vector<CheckReport> findings) {
  bool const throws = options_.mode == CheckMode::throw_error;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    bool const is_thrown = throws && i == 0;
    keep(findings[i], !is_thrown && options_.mode != CheckMode::count);
  }
  if (throws && !findings.empty()) {
    throw RaceError(std::move(findings.front()));
  }
}

void FindingLog::publish_quietly(std::vector<CheckReport> const& findings) noexcept {
  told_quietly.fetch_add(findings.size(), std::memory_order_relaxed);
  try {
    for (auto const& finding : findings) {
      keep(finding, options_.mode != CheckMode::count);
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "msstream check: a finding was lost: %s\n", error.what());
  } catch (...) {
    std::fputs("msstream check: a finding was lost: on_report threw no exception\n", stderr);
  }
}

void FindingLog::keep(CheckReport const& finding, bool tell) {
  {
    std::lock_guard const guard(mutex_);
    ++counts_[static_cast<std::size_t>(finding.kind)];
    auto const same = std::find_if(
        kept_.begin(), kept_.end(), [&](CheckReport const& held) { return held.same_as(finding); });
    if (same != kept_.end()) {
      ++same->times;
      return;
    }
    if (kept_.size() >= options_.most_reports) {
      return;
    }
    kept_.push_back(finding);
  }
  if (tell) {
    std::cerr << text("msstream check: ", finding.text(), "\n");
  }
  if (options_.on_report) {
    options_.on_report(finding);
  }
}

std::vector<CheckReport> FindingLog::reports() const {
  std::lock_guard const guard(mutex_);
  return kept_;
}

std::uint64_t FindingLog::count() const {
  std::lock_guard const guard(mutex_);
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

std::uint64_t FindingLog::count(CheckKind kind) const {
  std::lock_guard const guard(mutex_);
  return counts_[static_cast<std::size_t>(kind)];
}

void FindingLog::clear() {
  std::lock_guard const guard(mutex_);
  kept_.clear();
  counts_ = {};
}

void FindingLog::write_file() const noexcept {
  if (options_.report_path.empty()) {
    return;
  }
  try {
    auto& files = report_files();
    std::lock_guard const guard(files.mutex);
    auto& findings = files.findings[options_.report_path];
    findings[this] = reports();
    auto all = files.of_those_gone[options_.report_path];
    for (auto const& [log, reports] : findings) {
      all.insert(all.end(), reports.begin(), reports.end());
    }
    std::string const beside = options_.report_path + ".partial";
    std::ofstream file(beside);
    file << json_of(all);
    file.close();
    if (!file || std::rename(beside.c_str(), options_.report_path.c_str()) != 0) {
      throw std::runtime_error("cannot write it");
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "msstream check: %s: %s\n", options_.report_path.c_str(), error.what());
  }
}

}  // namespace msstream::detail
