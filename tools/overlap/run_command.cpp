// SPDX-License-Identifier: Apache-2.0
#include "run_command.hpp"

#include "run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap {

namespace {

/// Returns a mistake in the arguments of the command, for a message that says how to be told more.
cli::UsageError usage_error(std::string message, std::string const& program, bool has_separator) {
  if (!has_separator && message.starts_with("unknown argument")) {
    message += fmt::format(
        "; a program with options of its own stands after --, as in: {} -- python "
        "-c 'print(1)'",
        program);
  }
  return cli::UsageError(message, program);
}

}  // namespace

int run_command(cli::Arguments const& arguments) {
  // What follows `--` belongs to the program, however it is spelled.
  auto const& values = arguments.values;
  auto const separator = std::ranges::find(values, "--");
  auto own = arguments;
  own.program += " run";
  own.values.assign(values.begin() + 1, separator);

  RunOptions chosen;
  std::vector<std::string> first;
  std::string output;
  std::string cupti;
  std::string recorder;
  double skip = 0;
  double duration = 0;
  bool no_preload = false;
  auto memory_mib = static_cast<std::uint64_t>(chosen.memory_mib);
  cli::Options options(
      "Records a CUDA program, such as a Python one, and its children. The recording is what "
      "'msstream-overlap FILE' explains; Perfetto and chrome://tracing open it, too. Ends with "
      "the program's exit status.",
      {{"msstream-overlap run -- python train.py", "record all of a program"},
       {"msstream-overlap run --skip 20 --duration 5 -- ./server", "five seconds, after warm-up"},
       {"msstream-overlap run --range step -- ./train", "only while the NVTX range 'step' is open"},
       {"msstream-overlap run --output a.json.gz -- ./train && msstream-overlap a.json.gz",
        "record, then report"}});
  options.group("Recording");
  options.add("--output", output, "the file to write; default: PROGRAM.overlap.json.gz", "a path");
  options.add_flag("--force", chosen.force, "replace the file if it exists");
  options.add<double>("--skip", skip, "seconds to skip after CUDA's initialisation", {0, 1e9});
  options.add<double>("--duration", duration, "seconds to record; 0 for all", {0, 1e9});
  options.add(
      "--range", chosen.range, "record only in NVTX ranges of this name", "NAME or DOMAIN/NAME");
  options.add_flag("--graph-nodes", chosen.graph_nodes, "record each node of CUDA graphs");
  options.add<std::uint64_t>(
      "--memory", memory_mib, "MiB for records that wait to be written", {1, 65'536});
  options.group("How the recorder enters the program");
  options.add_flag(
      "--no-preload", no_preload, "do not preload the recorder; the last second may be lost");
  options.add("--cupti", cupti, "the libcupti.so to load if the program has none", "a path");
  options.add(
      "--recorder", recorder, "the recorder; default: the one installed with the tool", "a path");
  if (separator == values.end()) {
    options.add_arguments("PROGRAM", first, "the program, without options; with options, after --");
  }
  options.describe_usage("[OPTIONS] -- PROGRAM [ARGUMENT…]");
  options.allow_variables_of_others();  // the program may be one of msstream
  try {
    options.parse(own, std::cerr);
  } catch (cli::UsageError const& error) {
    throw usage_error(error.what(), own.program, separator != values.end());
  }
  chosen.command = std::move(first);
  if (separator != values.end()) {
    chosen.command.assign(std::next(separator), values.end());
  }
  if (chosen.command.empty()) {
    throw cli::UsageError("run: expected a program, as in: msstream-overlap run -- python train.py",
                          own.program);
  }
  chosen.output = output;
  chosen.cupti = cupti;
  chosen.recorder = recorder;
  // Rounded up: a duration of 0 would record all.
  chosen.skip_ms = static_cast<std::int64_t>(std::ceil(skip * 1000));
  chosen.duration_ms = static_cast<std::int64_t>(std::ceil(duration * 1000));
  chosen.memory_mib = static_cast<std::size_t>(memory_mib);
  chosen.preload = !no_preload;
  try {
    return run(chosen);
  } catch (std::invalid_argument const& error) {
    throw cli::UsageError(error.what(), own.program);
  }
}

}  // namespace msstream::overlap
