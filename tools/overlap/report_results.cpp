// SPDX-License-Identifier: Apache-2.0
#include "report_results.hpp"

#include "overlap/find/find.hpp"
#include "overlap/read/read.hpp"
#include "overlap/recording/duration_text.hpp"
#include "overlap/recording/likeness.hpp"
#include "overlap/recording/ranks.hpp"

#include <msstream/report/progress_line.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace msstream::overlap {
namespace {

std::vector<Recording> read_with_progress(std::string const& file, bool quiet) {
  using report::ProgressLine;
  constexpr std::size_t kLong = std::size_t{64} << 20U;
  auto style = ProgressLine::Style::of_stderr(quiet);
  style.unit = "bytes";
  std::optional<ProgressLine> line;
  ReadOptions options;
  if (style.kind == ProgressLine::Style::Kind::bar) {
    options.progress = [&](std::size_t done, std::size_t size) {
      if (size < kLong) {
        return;
      }
      if (!line) {
        line.emplace("reading " + file, static_cast<std::int64_t>(size), style);
      }
      line->update(static_cast<std::int64_t>(done));
    };
  }
  auto recordings = read(file, options);
  if (line) {
    line->finish();
  }
  return recordings;
}

/// Refuses a file that is there twice under one name or several.
void check_files_differ(std::vector<std::string> const& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      std::error_code error;
      if (std::filesystem::equivalent(files[j], files[i], error) && !error) {
        throw cli::UsageError(
            fmt::format("{} and {} are the same file; several files are the ranks of one program",
                        files[j],
                        files[i]));
      }
    }
  }
}

/// Refuses recordings without ranks of which two are one; if that is not certain, notes it.
void check_recordings_differ(std::vector<Recording>& recordings) {
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      auto& first = recordings[j];
      auto& second = recordings[i];
      auto const alike =
          first.origin == second.origin ? Likeness::different : likeness(first, second);
      if (alike == Likeness::same_process) {
        throw cli::UsageError(fmt::format(
            "{} and {} record the same process from the same time on; several files are the ranks "
            "of one program (compare two files with --compare)",
            first.origin,
            second.origin));
      }
      if (alike == Likeness::equal_contents) {
        auto const note = fmt::format(
            "{} and {} have the same work and calls: if they are copies of one recording, and not "
            "two ranks, give one of them",
            first.origin,
            second.origin);
        first.notes.push_back(note);
        second.notes.push_back(note);
      }
    }
  }
}

/// Reads files, whose recordings are ranks if there are several.
std::vector<Recording> read_all(std::vector<std::string> const& files, bool quiet) {
  check_files_differ(files);
  std::vector<Recording> recordings;
  for (auto const& file : files) {
    auto read_here = read_with_progress(file, quiet);
    std::ranges::move(read_here, std::back_inserter(recordings));
  }
  bool const are_numbered = std::ranges::none_of(
      recordings, [](Recording const& recording) { return recording.rank == kUnknown; });
  if (recordings.size() > 1 && !are_numbered) {
    check_recordings_differ(recordings);
    for (std::size_t i = 0; i < recordings.size(); ++i) {
      recordings[i].rank = static_cast<int>(i);
      recordings[i].ranks = static_cast<int>(recordings.size());
    }
  }
  if (recordings.size() > 1) {
    std::ranges::stable_sort(recordings, {}, &Recording::rank);
    std::set<int> ranks;
    for (auto const& recording : recordings) {
      if (!ranks.insert(recording.rank).second) {
        throw cli::UsageError(fmt::format(
            "{} is of rank {}, as another file is; several files are the ranks of one program "
            "(compare two files with --compare)",
            recording.origin,
            recording.rank));
      }
    }
  }
  return recordings;
}

/// Explains ranks together if their clocks are aligned, and else one by one.
std::vector<Report> explain(std::vector<Recording> const& recordings,
                            bool are_aligned,
                            FindOptions const& options) {
  if (recordings.size() > 1 && are_aligned) {
    return find(recordings, options);
  }
  std::vector<Report> reports;
  for (std::size_t rank = 0; rank < recordings.size(); ++rank) {
    auto of_rank = options;
    if (!options.windows.empty()) {
      of_rank.window = options.windows[rank];
    }
    reports.push_back(find(recordings[rank], of_rank));
    if (recordings.size() > 1) {
      reports.back().notes.emplace_back(
          "The files have neither Unix times nor collectives with numbers in common: ranks are "
          "explained one by one, and waits for another rank are not told from transfers.");
    }
  }
  return reports;
}

std::vector<Report> explain(std::vector<Recording> const& recordings,
                            bool are_aligned,
                            ReportOptions const& chosen,
                            std::vector<FailOn> const& conditions) {
  FindOptions options;
  for (auto const& condition : conditions) {
    if (condition.share > 0) {
      options.least_share = std::min(options.least_share, condition.share);
    }
  }
  if (chosen.window.empty()) {
    return explain(recordings, are_aligned, options);
  }
  return chosen_by("--window", [&] {
    for (auto const& recording : recordings) {
      options.windows.push_back(window_of(recording, chosen.window));
    }
    return explain(recordings, are_aligned, options);
  });
}

/// Returns the error for a rank that the files do not have.
cli::UsageError unknown_rank(int rank, std::vector<int> const& known) {
  std::string ranks;
  for (auto const one : known) {
    ranks += fmt::format(
        "{}{}", ranks.empty() ? "" : ", ", one == kUnknown ? "unknown" : std::to_string(one));
  }
  return cli::UsageError(fmt::format("--rank {}: the ranks are: {}", rank, ranks));
}

/// Returns the reports of a file of JSON, as far as the options choose them.
std::vector<Summary> chosen_summaries(std::string const& file,
                                      std::string const& json,
                                      ReportOptions const& chosen) {
  auto summaries = read_summaries(json, file);
  if (!chosen.window.empty()) {
    throw cli::UsageError(fmt::format(
        "--window {}: {} is a report, whose window is {}; give the recording",
        chosen.window,
        file,
        summaries.empty() ? "unknown" : duration_text(summaries.front().window) + " long"));
  }
  if (chosen.rank != kUnknown) {
    std::vector<int> ranks;
    for (auto const& summary : summaries) {
      ranks.push_back(summary.rank);
    }
    std::erase_if(summaries, [&](Summary const& s) { return s.rank != chosen.rank; });
    if (summaries.empty()) {
      throw unknown_rank(chosen.rank, ranks);
    }
  }
  for (auto& summary : summaries) {
    if (chosen.device == kUnknown) {
      continue;
    }
    std::string known;
    for (auto const& device : summary.devices) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", device.number);
    }
    std::erase_if(summary.devices, [&](auto const& one) { return one.number != chosen.device; });
    std::erase_if(summary.findings, [&](auto const& one) { return one.device != chosen.device; });
    if (summary.devices.empty()) {
      throw cli::UsageError(
          fmt::format("--device: {} has no device {}; it has: {}", file, chosen.device, known));
    }
  }
  return summaries;
}

}  // namespace

Results results_of(std::vector<std::string> const& files,
                   ReportOptions const& chosen,
                   std::vector<FailOn> const& conditions) {
  Results results;
  results.recordings = read_all(files, chosen.quiet);
  bool const are_aligned = align_ranks(results.recordings);
  results.reports = explain(results.recordings, are_aligned, chosen, conditions);
  if (chosen.rank != kUnknown) {
    auto const found = std::ranges::find(results.recordings, chosen.rank, &Recording::rank);
    if (found == results.recordings.end()) {
      std::vector<int> ranks;
      for (auto const& recording : results.recordings) {
        ranks.push_back(recording.rank);
      }
      throw unknown_rank(chosen.rank, ranks);
    }
    auto const place = found - results.recordings.begin();
    Results one;
    one.recordings.push_back(std::move(*found));
    one.reports.push_back(std::move(results.reports[static_cast<std::size_t>(place)]));
    results = std::move(one);
  }
  if (chosen.device != kUnknown) {
    for (std::size_t i = 0; i < results.reports.size(); ++i) {
      results.reports[i] = chosen_by("--device", [&] {
        return only_device(results.recordings[i], results.reports[i], chosen.device);
      });
    }
  }
  return results;
}

std::vector<Summary> summaries_of(std::string const& file, ReportOptions const& chosen) {
  std::ifstream stream(file, std::ios::binary);
  if (!std::filesystem::is_directory(file) && is_report_json(stream)) {
    stream.clear();
    stream.seekg(0);
    return chosen_summaries(file, {std::istreambuf_iterator<char>(stream), {}}, chosen);
  }
  auto const results = results_of({file}, chosen, {});
  std::vector<Summary> summaries;
  for (auto const& explained : results.explained()) {
    summaries.push_back(summary_of(explained));
  }
  return summaries;
}

}  // namespace msstream::overlap
