// SPDX-License-Identifier: Apache-2.0
#include "finding_log.hpp"

#include <msstream/base/detail/file_identity.hpp>
#include <msstream/base/output_file.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace msstream::detail {

namespace {

std::atomic<std::uint64_t> told_quietly{0};

/// The findings of all checkers that write to one file.
struct ReportFile {
  std::optional<FileIdentity> identity;  ///< the identity of the file when it was last written
  std::string path;                      ///< the path as it was first spelled
  std::map<FindingLog const*, std::vector<CheckReport>> findings;
  std::vector<CheckReport> of_those_gone;
};
struct ReportFiles {
  std::mutex mutex;
  std::vector<ReportFile> all;

  /// Returns the file to which a path refers, however the path is spelled.
  ReportFile& of(std::string const& path) {
    auto const identity = identity_of(path);
    auto const found = std::find_if(all.begin(), all.end(), [&](ReportFile const& file) {
      return file.path == path || (identity && file.identity == identity);
    });
    return found != all.end() ? *found : all.emplace_back(ReportFile{identity, path, {}, {}});
  }
};
/// Returns the report files of all checkers. They are never destroyed, because a checker may be
/// destroyed after all static objects.
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
  for (auto& file : files.all) {
    if (auto own = file.findings.extract(this); !own.empty()) {
      auto& gone = file.of_those_gone;
      gone.insert(gone.end(), own.mapped().begin(), own.mapped().end());
    }
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
    std::cerr << fmt::format("msstream check: {}\n", finding.text());
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
    auto& file = files.of(options_.report_path);
    file.findings[this] = reports();
    auto all = file.of_those_gone;
    for (auto const& [log, reports] : file.findings) {
      all.insert(all.end(), reports.begin(), reports.end());
    }
    // Opens the file without waiting for a reader of a pipe, because a program that ends must not
    // block.
    msstream::write_file(options_.report_path, json_of(all), OutputFile::Kind::streamed_at_once);
    // The write may have replaced the report file, which gives it a new identity.
    file.identity = identity_of(options_.report_path);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "msstream check: %s\n", error.what());
  }
}

}  // namespace msstream::detail
