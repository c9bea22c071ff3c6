// SPDX-License-Identifier: Apache-2.0
#include "report_options.hpp"

#include "cli/outputs.hpp"

#include <algorithm>
#include <iostream>
#include <utility>

namespace msstream::overlap {

ReportOptions parse_report_options(cli::Arguments const& arguments) {
  ReportOptions chosen;
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
              "and its fix gains at least this share of the window, of what it lost",
              "CAUSE or CAUSE:SHARE, more apart by commas");
  options.group("Causes");
  options.add_flag("--list-causes", chosen.list_causes, "list the causes that are told apart");
  options.add("--explain", chosen.explain, "explain a cause", "the id of a cause");
  options.group("The tool");
  options.add_flag("--version", chosen.shows_version, "print the version, and end");
  for (auto const* const ending : {"--list-causes", "--explain", "--version"}) {
    options.only_on_command_line(ending);
  }
  options.parse(arguments, std::cerr);
  return chosen;
}

void check(ReportOptions const& chosen) {
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
  if (chosen.svg_timeline && chosen.svg.empty()) {
    throw cli::UsageError("--svg-timeline: says what --svg FILE draws, which is missing");
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

}  // namespace msstream::overlap
