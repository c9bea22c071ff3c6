// SPDX-License-Identifier: Apache-2.0
#include "train_options.hpp"

#include <msstream/base/env.hpp>
#include <msstream/memory/allocator.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <iostream>
#include <map>
#include <stdexcept>

namespace train_wdl {

namespace support = msstream::support;
using msstream::text;
using support::UsageError;

namespace {

constexpr char const* kDescription =
    "Trains a Wide & Deep click model, each categorical field as a branch on a stream group.\n"
    "Without --data it trains on generated Criteo-shaped data. The losses are the same bits for "
    "any\n"
    "number of groups and any way of launching.";

/// The library's own variables, which it would read, and refuse, only after the data is loaded.
void read_library_variables(TrainOptions& chosen) {
  try {
    chosen.no_reduce_waits = !msstream::env::flag("MSSTREAM_REDUCE_WAITS", true);
    (void)msstream::AllocatorOptions{};
    if (!msstream::env::value_of("MSSTREAM_CHECK_MODE").empty()) {
      chosen.check_mode = msstream::CheckerOptions{}.mode;
    }
  } catch (std::invalid_argument const& error) {
    throw UsageError(error.what());
  }
}

void check(TrainOptions const& options) {
  namespace fs = std::filesystem;
  if (options.launch_thread_count != 0 &&
      options.launch_threads != msstream::LaunchThreads::shared) {
    throw UsageError(
        "--launch-thread-count goes with --launch-threads shared; private means one thread a "
        "group");
  }
#if !MSSTREAM_CUDA
  if (options.runtime == RuntimeChoice::cuda) {
    throw UsageError(
        "--runtime cuda: this build has no CUDA; configure with MSSTREAM_CUDA=ON, or use host");
  }
#endif
  if (!options.check && !options.check_report.empty()) {
    throw UsageError("--check-report goes with --check");
  }
  if (options.holdout == 1) {
    throw UsageError("--holdout 1 would hold out every row; expected 0 (none) or at least 2");
  }
  if (options.data.empty() && options.format != support::DataFormat::automatic) {
    throw UsageError("--format describes a file: give --data");
  }
  std::map<std::string, char const*> writers;
  for (auto const& [name, file] : {std::pair{"--save", options.save},
                                   {"--report", options.report},
                                   {"--trace", options.trace},
                                   {"--check-report", options.check_report}}) {
    if (auto const [other, is_first] = writers.emplace(file, name); !file.empty() && !is_first) {
      throw UsageError(text(name, " ", file, ": ", other->second, " writes that file"));
    }
    auto const folder = fs::path(file).parent_path();
    if (!file.empty() && !folder.empty() && !fs::is_directory(folder)) {
      throw UsageError(text(name, " ", file, ": there is no folder ", folder.string()));
    }
    if (!file.empty() && fs::is_directory(file)) {
      throw UsageError(text(name, " ", file, ": is a folder; expected a file"));
    }
  }
}

}  // namespace

TrainOptions parse_options(support::Arguments const& arguments) {
  TrainOptions chosen;
  read_library_variables(chosen);
  support::Options options(
      kDescription,
      {{"train_wdl", "generated data, a minute at most"},
       {"train_wdl --data census_income_kdd.csv.gz --epochs 3",
        "the census data, 33 branches on 4 groups"},
       {"train_wdl --stream-groups 8 --launch-threads private",
        "8 groups, each with a thread that launches"},
       {"train_wdl --steps 200 --save m.safetensors", "stop early and keep the model"},
       {"train_wdl --resume m.safetensors --steps 400", "go on from there, with the same bits"},
       {"train_wdl --steps 100 --check --check-report found.json",
        "is all work in order? status 1 if not"}});
  options.group("Data");
  options.add(
      "--data", chosen.data, "CSV, gzipped CSV or TSV file; generated data without it", "a path");
  options.add_choice("--format",
                     chosen.format,
                     {{"auto", support::DataFormat::automatic},
                      {"census", support::DataFormat::census},
                      {"criteo-csv", support::DataFormat::criteo_csv},
                      {"criteo-tsv", support::DataFormat::criteo_tsv}},
                     "layout of the file");
  options.add<std::int64_t>("--rows", chosen.rows, "rows of generated data", {1, 1'000'000'000});
  options.add<std::int64_t>(
      "--holdout", chosen.holdout, "every how-manieth row is for testing; 0: none", {0, 1'000'000});
  options.add<int>(
      "--reader-threads", chosen.reader_threads, "threads that fill batches ahead", {1, 64});

  options.group("Streams");
  options.add_choice("--runtime",
                     chosen.runtime,
                     {{"host", RuntimeChoice::host}, {"cuda", RuntimeChoice::cuda}},
                     "where to train; cuda needs a build with it");
  options.add<int>("--stream-groups",
                   chosen.stream_groups,
                   "stream groups to spread the branches over",
                   {1, 256});
  options.add_flag(
      "--merge-streams", chosen.merge_streams, "one stream a group for compute and copies");
  options.add_flag(
      "--no-reduce-waits", chosen.no_reduce_waits, "issue every wait, also those known to hold");
  options.add_choice("--launch-threads",
                     chosen.launch_threads,
                     {{"none", msstream::LaunchThreads::none},
                      {"shared", msstream::LaunchThreads::shared},
                      {"private", msstream::LaunchThreads::per_group}},
                     "who launches: this thread, a few for all groups, or one a group");
  options.add<int>("--launch-thread-count",
                   chosen.launch_thread_count,
                   "how many when shared; 0 chooses",
                   {0, 64});

  options.group("Model");
  options.add<int>("--embedding-dim", chosen.embedding_dim, "width of the deep tables", {1, 1024});
  options.add<std::int64_t>("--layers", chosen.layers, "widths of the hidden layers", {1, 65536});
  options.add<std::int64_t>(
      "--buckets", chosen.buckets, "rows of each table; 0 chooses by the data", {0, 1'000'000'000});

  options.group("Training");
  options.add<std::int64_t>("--batch", chosen.batch, "rows a step", {1, 1 << 20});
  options.add<std::int64_t>(
      "--epochs", chosen.epochs, "passes over the training rows", {1, 100'000});
  options.add<std::int64_t>("--steps",
                            chosen.steps,
                            "stop after so many steps since the start of training; 0: do not",
                            {0, 1'000'000'000});
  options.add_choice("--optimizer",
                     chosen.optimizer,
                     {{"adam", msstream::ops::OptimizerKind::adam},
                      {"adagrad", msstream::ops::OptimizerKind::adagrad},
                      {"sgd", msstream::ops::OptimizerKind::sgd}},
                     "update rule");
  options.add<float>("--lr", chosen.learning_rate, "learning rate", {0.0F, 1e6F});
  options.add<std::uint64_t>("--seed", chosen.seed, "of weights, order and generated data");

  options.group("Checking");
  options.add_flag("--check",
                   chosen.check,
                   "report races, early reuse of memory, blocking calls and leaks; slower");
  options.add("--check-report", chosen.check_report, "what --check finds as JSON", "a path");

  options.group("Files");
  options.add("--save", chosen.save, "model and optimizer at the end, as safetensors", "a path");
  options.add("--resume", chosen.resume, "go on from a saved model", "a path");
  options.add("--report", chosen.report, "losses, epochs, waits and memory as JSON", "a path");
  options.add("--trace", chosen.trace, "one training step as trace JSON for Perfetto", "a path");
  options.add_flag("--quiet", chosen.quiet, "no progress");
  // What the library reads itself, and the project's scripts and tests.
  options.know_variables({"MSSTREAM_MEMORY_LIMIT_BYTES",
                          "MSSTREAM_MEMORY_LIMIT_PERCENT",
                          "MSSTREAM_MEMORY_SOFT_LIMIT_BYTES",
                          "MSSTREAM_MAX_GROWTH_BYTES",
                          "MSSTREAM_MEMORY_POOLS",
                          "MSSTREAM_MEMORY_PRIVATE_POOLS",
                          "MSSTREAM_PINNED_POOLS",
                          "MSSTREAM_MEMORY_KEEP_BYTES",
                          "MSSTREAM_MEMORY_RETURN_AFTER_MS",
                          "MSSTREAM_MEMORY_WAIT_MS",
                          "MSSTREAM_MEMORY_HISTORY",
                          "MSSTREAM_REDUCE_WAITS",
                          "MSSTREAM_CHECK_MODE",
                          "MSSTREAM_BUILD_PRESET",
                          "MSSTREAM_TEST_DATA"});
  options.parse(arguments, std::cerr);
  check(chosen);
  return chosen;
}

std::string_view name_of(RuntimeChoice choice) {
  return choice == RuntimeChoice::cuda ? "cuda" : "host";
}

std::string_view name_of(msstream::LaunchThreads choice) {
  switch (choice) {
    case msstream::LaunchThreads::shared:
      return "shared";
    case msstream::LaunchThreads::per_group:
      return "private";
    case msstream::LaunchThreads::none:
      break;
  }
  return "none";
}

std::string_view name_of(msstream::ops::OptimizerKind kind) {
  switch (kind) {
    case msstream::ops::OptimizerKind::sgd:
      return "sgd";
    case msstream::ops::OptimizerKind::adagrad:
      return "adagrad";
    case msstream::ops::OptimizerKind::adam:
      break;
  }
  return "adam";
}

nlohmann::ordered_json describe(TrainOptions const& options) {
  return {{"data", options.data},
          {"format", support::name_of(options.format)},
          {"rows", options.rows},
          {"holdout", options.holdout},
          {"runtime", name_of(options.runtime)},
          {"stream_groups", options.stream_groups},
          {"merge_streams", options.merge_streams},
          {"reduce_waits", !options.no_reduce_waits},
          {"launch_threads", name_of(options.launch_threads)},
          {"launch_thread_count", options.launch_thread_count},
          {"embedding_dim", options.embedding_dim},
          {"layers", options.layers},
          {"buckets", options.buckets},
          {"batch", options.batch},
          {"epochs", options.epochs},
          {"steps", options.steps},
          {"optimizer", name_of(options.optimizer)},
          {"lr", options.learning_rate},
          {"seed", options.seed},
          {"reader_threads", options.reader_threads},
          {"check", options.check},
          {"save", options.save},
          {"resume", options.resume}};
}

}  // namespace train_wdl
