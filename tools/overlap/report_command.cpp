// SPDX-License-Identifier: Apache-2.0
#include "report_command.hpp"

#include "cli/outputs.hpp"
#include "overlap/find/find.hpp"
#include "overlap/read/read.hpp"
#include "overlap/recording/duration_text.hpp"
#include "overlap/recording/likeness.hpp"
#include "overlap/recording/ranks.hpp"
#include "overlap/show/choices.hpp"
#include "overlap/show/page.hpp"
#include "overlap/show/picture.hpp"
#include "overlap/show/report_json.hpp"
#include "overlap/show/summary.hpp"
#include "overlap/show/terminal.hpp"

#include <msstream/report/progress_line.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

struct Chosen {
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
};

/// What was read of one recording, and what explains it.
struct Results {
  std::vector<Recording> recordings;
  std::vector<Report> reports;

  [[nodiscard]] std::vector<Explained> explained() const {
    std::vector<Explained> out;
    for (std::size_t i = 0; i < recordings.size(); ++i) {
      out.push_back({recordings[i], reports[i]});
    }
    return out;
  }
};

Chosen parse(cli::Arguments const& arguments) {
  Chosen chosen;
  cli::Options options(
      "Says why the streams of a CUDA program did not overlap: where the time of each device went, "
      "what it was lost to, and what to change.\n\n"
      "Reads recordings of 'msstream-overlap run', traces of PyTorch's profiler (JSON, also "
      "gzipped), SQLite exports of Nsight Systems, and step traces and timelines of msstream. "
      "Several files are the ranks of one program. 'msstream-overlap run --help' describes how to "
      "record.\n\n"
      "Exit status: 0; 1 if a file cannot be read or written; 2 for mistakes in the arguments; 3 "
      "if a finding meets --fail-on.",
      {{"msstream-overlap run -- python train.py", "record a program; 'run --help' says more"},
       {"msstream-overlap trace.json.gz", "report on a recording, on the terminal"},
       {"msstream-overlap trace.json.gz --html report.html", "and as a page for a browser"},
       {"msstream-overlap trace.json.gz --window 10ms:12ms --svg part.svg", "a picture of a part"},
       {"msstream-overlap trace.json.gz --window 'ProfilerStep*'", "report on the steps alone"},
       {"msstream-overlap rank0.json rank1.json --rank 1", "two ranks; report on the second"},
       {"msstream-overlap --compare before.json after.json", "what a change brought"},
       {"msstream-overlap trace.json --quiet --fail-on launch-bound:20%,pageable-copy",
        "a check for continuous integration"},
       {"msstream-overlap --explain copy-engine", "what a cause means, and what helps"}});
  options.add_arguments("FILE", chosen.files, "recordings; of one program's ranks if several");
  options.group("What to report");
  options.add("--window",
              chosen.window,
              "the part of the recording to explain, as times (10ms:20ms; ms without a unit) or as "
              "the name of ranges, in which * stands for any characters",
              "BEGIN:END or a name");
  options.add<int>(
      "--device", chosen.device, "report on the GPU of this number alone; -1 for all", {-1});
  options.add<int>("--rank", chosen.rank, "report on this rank alone; -1 for all", {-1});
  options.add_flag(
      "--compare", chosen.compare, "compare two files: recordings, or reports as JSON");
  options.group("Output");
  options.add(
      "--json", chosen.json, "write the report as JSON; - for the standard output", "a path");
  options.add("--html", chosen.html, "write the report as a page for a browser", "a path or -");
  options.add(
      "--svg", chosen.svg, "write a picture of the report, for a page or a message", "a path or -");
  options.add_flag("--svg-timeline",
                   chosen.svg_timeline,
                   "with --svg: draw what ran when, and neither causes nor findings");
  options.add_flag("--quiet", chosen.quiet, "print no report and no progress");
  options.add("--fail-on",
              chosen.fail_on,
              "end with status 3 if a finding has this cause ('any' for each but true-dependency) "
              "and loses at least this share of the window",
              "CAUSE or CAUSE:SHARE, more apart by commas");
  options.group("Causes");
  options.add_flag("--list-causes", chosen.list_causes, "list the causes that are told apart");
  options.add("--explain", chosen.explain, "explain a cause", "the id of a cause");
  options.parse(arguments, std::cerr);
  return chosen;
}

/// Calls `choose`, whose errors are mistakes in the value of an option.
template <class Choose>
auto chosen_by(std::string_view option, Choose choose) {
  try {
    return choose();
  } catch (std::invalid_argument const& error) {
    throw cli::UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

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
                            Chosen const& chosen,
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

Results results_of(std::vector<std::string> const& files,
                   Chosen const& chosen,
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

/// Returns the reports of a file of JSON, as far as the options choose them.
std::vector<Summary> chosen_summaries(std::string const& file,
                                      std::string const& json,
                                      Chosen const& chosen) {
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

/// Returns the sums of a file: of its report if it is one, else of what was found in its recording.
std::vector<Summary> summaries_of(std::string const& file, Chosen const& chosen) {
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

/// The path that stands for the standard output.
constexpr char const* kStdout = "-";

/// Whether an output takes the place of the text on the standard output.
bool prints_output(Chosen const& chosen) {
  return chosen.json == kStdout || chosen.html == kStdout || chosen.svg == kStdout;
}

void write_or_print(std::string_view option, std::string const& path, std::string const& content) {
  if (path == kStdout) {
    cli::print(content);
  } else {
    cli::write_output(option, path, content);
  }
}

void compare_files(Chosen const& chosen) {
  auto const before = summaries_of(chosen.files[0], chosen);
  auto const after = summaries_of(chosen.files[1], chosen);
  auto const comparisons = chosen_by("--compare", [&] { return compare(before, after); });
  if (!chosen.quiet && !prints_output(chosen)) {
    cli::print(terminal_text(comparisons, TextStyle::of_stdout()));
  }
  write_or_print("--json", chosen.json, json_text(comparisons));
  write_or_print("--html", chosen.html, html_text(comparisons));
}

void check(Chosen const& chosen) {
  if (chosen.files.empty()) {
    throw cli::UsageError("expected a recording to report on, or 'run -- PROGRAM' to record one");
  }
  if (chosen.compare && chosen.files.size() != 2) {
    throw cli::UsageError(
        fmt::format("--compare: expected two files, found {}", chosen.files.size()));
  }
  if (chosen.compare && !chosen.svg.empty()) {
    throw cli::UsageError("--svg: a comparison has no picture; write one for each file");
  }
  if (chosen.compare && !chosen.fail_on.empty()) {
    throw cli::UsageError("--fail-on: is for reports, not for comparisons");
  }
  if (std::ranges::find(chosen.files, "-") != chosen.files.end()) {
    throw cli::UsageError(
        "FILE -: the standard input cannot be read, since some recordings are read twice; give a "
        "file");
  }
  std::vector<cli::OutputOption> outputs;
  char const* printed = nullptr;
  for (auto const& [name, path] : {std::pair("--json", chosen.json),
                                   std::pair("--html", chosen.html),
                                   std::pair("--svg", chosen.svg)}) {
    if (path != kStdout) {
      outputs.push_back({name, path, OutputFile::Kind::streamed});
    } else if (printed != nullptr) {
      throw cli::UsageError(fmt::format("{} -: {} writes to the standard output", name, printed));
    } else {
      printed = name;
    }
  }
  std::vector<cli::InputOption> inputs;
  for (auto const& file : chosen.files) {
    inputs.push_back({"FILE", file});
  }
  cli::check_outputs(outputs, inputs);
}

void print_report(std::vector<Explained> const& reports) {
  auto const style = TextStyle::of_stdout();
  std::string text;
  for (auto const& explained : reports) {
    text += text.empty() ? "" : "\n";
    text += terminal_text(explained, style);
  }
  cli::print(text);
}

}  // namespace

int report_command(cli::Arguments const& arguments) {
  auto const chosen = parse(arguments);
  if (chosen.list_causes) {
    cli::print(list_of_causes());
    return 0;
  }
  if (!chosen.explain.empty()) {
    auto const cause = chosen_by("--explain", [&] { return require_cause(chosen.explain); });
    cli::print(explanation_of(cause, TextStyle::of_stdout().width));
    return 0;
  }
  std::vector<FailOn> conditions;
  if (!chosen.fail_on.empty()) {
    conditions = chosen_by("--fail-on", [&] { return parse_fail_on(chosen.fail_on); });
  }
  check(chosen);
  if (chosen.compare) {
    compare_files(chosen);
    return 0;
  }
  auto const results = results_of(chosen.files, chosen, conditions);
  auto const explained = results.explained();
  if (!chosen.quiet && !prints_output(chosen)) {
    print_report(explained);
  }
  if (!chosen.json.empty()) {
    write_or_print("--json", chosen.json, json_text(explained));
  }
  if (!chosen.html.empty()) {
    write_or_print("--html", chosen.html, html_text(explained));
  }
  if (!chosen.svg.empty()) {
    write_or_print(
        "--svg", chosen.svg, svg_text(explained, {.only_timeline = chosen.svg_timeline}));
  }
  bool failed = false;
  for (auto const& report : explained) {
    for (auto const& failure : failures_of(report, conditions)) {
      std::cerr << fmt::format("{}: failed: {}\n", arguments.program, failure);
      failed = true;
    }
  }
  return failed ? kFailedCheck : 0;
}

}  // namespace msstream::overlap
