// SPDX-License-Identifier: Apache-2.0
#include "train_options.hpp"

#include "cli/outputs.hpp"
#include "cli/overlap_option.hpp"
#include "cli/precision_option.hpp"
#include "training/step_timeline.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <iostream>
#include <stdexcept>

namespace train_wdl {

namespace cli = msstream::cli;
namespace datasets = msstream::datasets;
namespace training = msstream::training;
using cli::UsageError;

namespace {

constexpr char const* kDescription =
    "Trains a Wide & Deep click model, each categorical field as a branch on a stream group.\n"
    "Without --data it trains on generated Criteo-shaped data. The losses are the same bits for "
    "any\n"
    "number of groups and any way of launching.";

/// Reads the environment variables of the library early, since the library would refuse bad values
/// only after the data is loaded.
void read_library_variables(TrainOptions& chosen) {
  cli::read_library_variables(chosen);
  try {
    chosen.tf32 = cli::default_tf32();
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets variables
    if (char const* const mode = std::getenv("MSSTREAM_CHECK_MODE"); mode != nullptr && *mode) {
      chosen.check_mode = msstream::CheckerOptions{}.mode;
    }
  } catch (std::invalid_argument const& error) {
    throw UsageError(error.what());
  }
}

void check(TrainOptions& options) {
  cli::check(static_cast<cli::StreamOptions const&>(options));
  training::check_ranks(options, options.batch);
  (void)training::loss_scale_of(options, options.precision);
  training::refuse_with_ranks(options, {{options.check, "--check: checks one rank"}});
  training::check_step_trace(options);
  training::check_with_ranks(static_cast<training::StepTraceOptions const&>(options), options);
  if (options.check && options.records_step()) {
    throw UsageError(
        "--waits and --step-trace do not go with --check, which watches the training alone");
  }
  if (options.tables == TableForm::fused && options.has_tables_in_parts()) {
    throw UsageError(
        "--tables fused does not go with --parallel sharded, which looks up all tables at once");
  }
  if (!options.check && !options.check_report.empty()) {
    throw UsageError("--check-report goes with --check");
  }
  if (options.holdout == 1) {
    throw UsageError("--holdout 1 would hold out every row; expected 0 (none) or at least 2");
  }
  if (options.data.empty() && options.format != datasets::DataFormat::automatic) {
    throw UsageError("--format describes a file: give --data");
  }
  cli::check_overlap_option(options.overlap);
  if (!options.overlap.empty() && (options.check || !options.trace.empty())) {
    throw UsageError(
        "--overlap does not go with --check and --trace, which change or record the times too");
  }
  training::check_streaming(options, options.data);
  std::vector<cli::InputOption> inputs{{"--resume", options.resume, "--save"}};
  training::add_data_files(options.data, inputs);
  std::vector<cli::OutputOption> outputs{
      {"--save", options.save, msstream::OutputFile::Kind::regular},
      {"--report", options.report},
      {"--step-trace", options.step_trace},
      {"--trace", options.trace},
      {cli::kOverlap, options.overlap},
      {"--check-report", options.check_report}};
  training::add_plan(options, inputs, outputs);
  cli::check_outputs(outputs, inputs);
}

}  // namespace

training::StepSetting TrainOptions::setting() const {
  return {.groups = stream_groups,
          .merge_streams = merge_streams,
          .launch_threads = launch_threads,
          .launch_thread_count = launch_thread_count,
          .captured = capture,
          .precision = tf32 ? ms::MatmulPrecision::tf32 : ms::MatmulPrecision::float32,
          .reduce_waits = !no_reduce_waits,
          .tables_together = !each_table,
          .loss_scale = training::loss_scale_of(*this, precision)};
}

TrainOptions TrainOptions::of_rank(int rank) const {
  auto options = *this;
  if (rank != 0) {
    options.quiet = true;
    options.dashboard = nullptr;
    options.is_traced_by_others = traces_step();
    for (auto* const path : {&options.report, &options.trace, &options.overlap}) {
      path->clear();
    }
    if (!has_tables_in_parts()) {
      options.save.clear();
    }
  }
  return options;
}

TrainOptions parse_options(cli::Arguments const& arguments) {
  TrainOptions chosen;
  read_library_variables(chosen);
  cli::Options options(
      kDescription,
      {{"train_wdl", "generated data, a minute at most"},
       {"train_wdl --data census_income_kdd.csv.gz --epochs 3",
        "the census data, 33 branches on 4 groups"},
       {"train_wdl --stream-groups 8 --launch-threads per_group",
        "8 groups, each with a thread that launches"},
       {"train_wdl --tables fused", "a few large operations in place of 26 branches"},
       {"train_wdl --capture", "each step is one launch, where the host launches too slowly"},
       {"train_wdl --precision bf16", "the hidden layers in bfloat16"},
       {"train_wdl --steps 200 --save m.safetensors", "stop early and keep the model"},
       {"train_wdl --resume m.safetensors --steps 400", "go on from there, with the same bits"},
       {"train_wdl --ranks 4", "4 ranks, each with a quarter of the rows of each batch"},
       {"train_wdl --ranks 4 --parallel sharded --plan plan.json",
        "each rank has a part of the tables, as plan.json says; written if there is none"},
       {"train_wdl --steps 100 --check --check-report found.json",
        "is all work in order? status 1 if not"},
       {"train_wdl --steps 20 --waits --step-trace step.svg",
        "how many waits a step needs, and a picture of it"},
       {"train_wdl --steps 20 --overlap report.html", "why did the 4 groups not overlap more?"}});
  options.group("Data");
  options.add("--data",
              chosen.data,
              "CSV or TSV file, gzipped or not, or Parquet; generated data without it",
              "a path, or several with commas between them");
  options.add_choice("--format",
                     chosen.format,
                     {{"auto", datasets::DataFormat::automatic},
                      {"census", datasets::DataFormat::census},
                      {"criteo-csv", datasets::DataFormat::criteo_csv},
                      {"criteo-tsv", datasets::DataFormat::criteo_tsv},
                      {"criteo-parquet", datasets::DataFormat::criteo_parquet}},
                     "layout of the file");
  options.add<std::int64_t>("--rows", chosen.rows, "rows of generated data", {1, 1'000'000'000});
  options.add<std::int64_t>(
      "--holdout", chosen.holdout, "every how-manieth row is for testing; 0: none", {0, 1'000'000});
  options.add<int>(
      "--reader-threads", chosen.reader_threads, "threads that fill batches ahead", {1, 64});
  training::add_options(options, static_cast<training::StreamingOptions&>(chosen));

  cli::add_options(options, static_cast<cli::StreamOptions&>(chosen));

  options.group("Model");
  options.add_choice("--tables",
                     chosen.tables,
                     {{"branches", TableForm::branches}, {"fused", TableForm::fused}},
                     "a hash and two lookups for each field, or three operations for all");
  options.add<int>("--embedding-dim", chosen.embedding_dim, "width of the deep tables", {1, 1024});
  options.add<std::int64_t>("--layers", chosen.layers, "widths of the hidden layers", {1, 65536});
  options.add<std::int64_t>(
      "--buckets", chosen.buckets, "rows of each table; 0 chooses by the data", {0, 1'000'000'000});
  cli::add_precision_option(
      options, chosen.precision, "of the hidden layers' products; fp16 scales the loss");
  training::add_options(options, static_cast<training::Float16Options&>(chosen));
  cli::add_tf32_option(options, chosen.tf32);

  options.group("Training");
  options.add<std::int64_t>(
      "--batch", chosen.batch, "rows a step, of all ranks together", {1, 1 << 20});
  options.add<std::int64_t>(
      "--epochs", chosen.epochs, "passes over the training rows", {1, 100'000});
  options.add<std::int64_t>("--steps",
                            chosen.steps,
                            "stop after so many steps since the start of training; 0: do not",
                            {0, 1'000'000'000});
  options.add_flag(
      "--capture", chosen.capture, "capture the second step, and replay it from then on");
  training::add_options(options, static_cast<training::UpdateOptions&>(chosen));
  options.add<std::uint64_t>("--seed", chosen.seed, "of weights, order and generated data");

  training::add_options(
      options, static_cast<training::RankOptions&>(chosen), training::TablesInParts::yes);

  options.group("Checking");
  options.add_flag("--check",
                   chosen.check,
                   "report races, early reuse of memory, blocking calls and leaks; slower");
  options.add("--check-report", chosen.check_report, "what --check finds as JSON", "a path");

  options.group("Files");
  options.add("--save", chosen.save, "model and optimizer at the end, as safetensors", "a path");
  options.add("--resume", chosen.resume, "go on from a saved model", "a path");
  options.add("--report", chosen.report, "losses, epochs, waits and memory as JSON", "a path");
  training::add_options(options, static_cast<training::StepTraceOptions&>(chosen));
  options.add("--trace", chosen.trace, "one training step as trace JSON for Perfetto", "a path");
  cli::add_overlap_option(options, chosen.overlap, "three steps");
  training::add_options(options, static_cast<training::DashboardOption&>(chosen));
  options.add_flag("--quiet", chosen.quiet, "no progress");
  cli::know_library_variables(options);
  options.parse(arguments, std::cerr);
  check(chosen);
  training::open_dashboard(
      chosen,
      {.program = "train_wdl",
       .what = fmt::format("{} stream groups; {} runtime{}{}",
                           chosen.stream_groups,
                           name_of(chosen.runtime),
                           training::data_text(chosen.data),
                           training::timelines_text(chosen.capture, chosen.ranks == 1)),
       .unit = "rows",
       .ranks = chosen.ranks},
      chosen.process.rank());
  return chosen.of_rank(chosen.process.rank());
}

nlohmann::ordered_json describe(TrainOptions const& options) {
  nlohmann::ordered_json described = {{"data", options.data},
                                      {"format", datasets::name_of(options.format)},
                                      {"rows", options.rows},
                                      {"holdout", options.holdout}};
  described.update(training::describe(static_cast<training::StreamingOptions const&>(options)));
  described.update(cli::describe(static_cast<cli::StreamOptions const&>(options)));
  described.update({{"tables", options.tables == TableForm::fused ? "fused" : "branches"},
                    {"embedding_dim", options.embedding_dim},
                    {"layers", options.layers},
                    {"buckets", options.buckets},
                    {"precision", cli::name_of(options.precision)},
                    {"loss_scale", options.loss_scale},
                    {"find_overflow", options.find_overflow},
                    {"tf32", options.tf32},
                    {"batch", options.batch},
                    {"epochs", options.epochs},
                    {"steps", options.steps},
                    {"capture", options.capture}});
  described.update(training::describe(static_cast<training::UpdateOptions const&>(options)));
  described.update(training::describe(static_cast<training::RankOptions const&>(options)));
  described.update({{"seed", options.seed},
                    {"reader_threads", options.reader_threads},
                    {"check", options.check},
                    {"save", options.save},
                    {"resume", options.resume}});
  return described;
}

}  // namespace train_wdl
