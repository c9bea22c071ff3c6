// SPDX-License-Identifier: Apache-2.0
#include "ple_options.hpp"

#include "cli/precision_option.hpp"
#include "datasets/generated.hpp"
#include "datasets/readers.hpp"
#include "training/step_report.hpp"
#include "training/step_timeline.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace train_ple {

namespace cli = ms::cli;
namespace datasets = ms::datasets;
namespace training = ms::training;
using cli::UsageError;

namespace {

constexpr char const* kDescription =
    "Trains Progressive Layered Extraction, a model of several tasks: per level experts of each\n"
    "task and shared ones, mixed by gates, and a tower a task. Without --data it trains on\n"
    "generated Criteo-shaped data; the census data has two tasks. The losses are the same bits\n"
    "for any number of groups and any way of launching. The last rows of an epoch that fill no\n"
    "batch are left out; which they are differs from epoch to epoch.";

constexpr std::int64_t kGeneratedBuckets = 100'000;

void check(PleOptions& options) {
  std::vector<cli::InputOption> inputs{{"--data", options.data}};
  std::vector<cli::OutputOption> outputs;
  training::add_plan(options, inputs, outputs);
  training::check(options, inputs, outputs);
  training::check_ranks(options, options.batch);
  training::check_with_ranks(options, options);
  options.scaling = training::loss_scale_of(options, options.shape.precision);
  if (options.holdout == 1) {
    throw UsageError("--holdout 1 would hold out every row; expected 0 (none) or at least 2");
  }
  if (!options.data.empty()) {
    PleOptions const unchosen;
    if (options.tasks != unchosen.tasks) {
      throw UsageError("--tasks is for generated data; the census data of --data has two");
    }
    if (options.hotness != unchosen.hotness) {
      throw UsageError("--hotness is for generated data; the census data of --data has one key");
    }
  }
}

void add_model_options(cli::Options& options, PleOptions& chosen) {
  options.group("Model");
  options.add_choice("--form",
                     chosen.form,
                     {{"branches", PleForm::branches}, {"grouped", PleForm::grouped}},
                     "each operation a branch, or few large operations");
  cli::add_precision_option(options,
                            chosen.shape.precision,
                            "of the products of experts, gates and towers; fp16 scales the loss");
  training::add_options(options, static_cast<training::Float16Options&>(chosen));
  options.add<std::int64_t>(
      "--buckets", chosen.buckets, "rows of each table; 0 chooses by the data", {0, 1'000'000'000});
  options.add<std::int64_t>(
      "--embedding-dim", chosen.shape.embedding_dim, "width of the tables", {1, 1024});
  options.add<int>("--levels", chosen.shape.levels, "levels of experts", {1, 16});
  options.add<int>("--experts", chosen.shape.experts, "experts a task, and shared ones", {1, 64});
  options.add<std::int64_t>(
      "--expert-hidden", chosen.shape.expert_hidden, "hidden units of an expert", {1, 65536});
  options.add<std::int64_t>(
      "--expert-outputs", chosen.shape.expert_outputs, "outputs of an expert", {1, 65536});
  options.add<std::int64_t>(
      "--tower-hidden", chosen.shape.tower_hidden, "hidden units of a tower", {1, 65536});
}

}  // namespace

PleOptions PleOptions::of_rank(int rank) const {
  auto options = *this;
  if (rank != 0) {
    options.silence();
  }
  return options;
}

PleOptions parse_options(cli::Arguments const& arguments) {
  PleOptions chosen;
  training::read_library_variables(chosen);
  cli::Options options(
      kDescription,
      {{"train_ple", "generated data, 26 fields of 4 keys and three tasks, on 4 groups"},
       {"train_ple --data census_income_kdd.csv.gz --form grouped",
        "the census data: income, and never married"},
       {"train_ple --stream-groups 7 --capture --report seven.json",
        "the second step is captured and replayed"},
       {"train_ple --stream-groups 7 --capture --assignment auto --save-assignment groups.txt",
        "groups chosen by a trace of a step; the file can be changed and given to --assignment"},
       {"train_ple --precision bf16 --form grouped", "experts, gates and towers in bfloat16"},
       {"train_ple --ranks 4", "4 ranks, each with a quarter of the rows of each batch"},
       {"train_ple --ranks 4 --parallel sharded --lookahead ids --form grouped",
        "each rank has a part of the tables; the ids of the next batch are sent early"},
       {"train_ple --steps 20 --waits --step-trace step.svg",
        "how many waits a step needs, and a picture of it"}});
  options.group("Data");
  options.add("--data",
              chosen.data,
              "Census-Income (KDD), gzipped or not; generated data without it",
              "a path");
  options.add<std::int64_t>("--rows", chosen.rows, "rows of generated data", {1, 1'000'000'000});
  options.add<int>("--tasks", chosen.tasks, "labels a row of generated data", {1, 64});
  options.add<std::int64_t>(
      "--hotness", chosen.hotness, "keys a field of generated data", {1, 1024});
  options.add<std::int64_t>(
      "--holdout", chosen.holdout, "every how-manieth row is for testing; 0: none", {0, 1'000'000});
  options.add<std::int64_t>(
      "--batch", chosen.batch, "rows a step, of all ranks together", {1, 1 << 20});
  options.add<std::int64_t>(
      "--epochs", chosen.epochs, "passes over the training rows", {1, 100'000});
  options.add<int>(
      "--reader-threads", chosen.reader_threads, "threads that fill batches ahead", {1, 64});
  add_model_options(options, chosen);
  training::add_options(
      options, static_cast<training::RankOptions&>(chosen), training::TablesInParts::yes);
  training::add_options(options, static_cast<training::StepOptions&>(chosen));
  options.parse(arguments, std::cerr);
  check(chosen);
  training::open_dashboard(
      chosen,
      {.program = "train_ple",
       .what = training::placement_text(chosen) + training::data_text(chosen.data) +
               training::timelines_text(chosen.capture, chosen.ranks == 1),
       .unit = "rows",
       .ranks = chosen.ranks},
      chosen.process.rank());
  return chosen.of_rank(chosen.process.rank());
}

nlohmann::ordered_json describe(PleOptions const& options) {
  nlohmann::ordered_json described = {
      {"data", options.data},
      {"rows", options.rows},
      {"tasks", options.tasks},
      {"hotness", options.hotness},
      {"holdout", options.holdout},
      {"batch", options.batch},
      {"epochs", options.epochs},
      {"reader_threads", options.reader_threads},
      {"form", options.form == PleForm::grouped ? "grouped" : "branches"},
      {"precision", cli::name_of(options.shape.precision)},
      {"loss_scale", options.loss_scale},
      {"find_overflow", options.find_overflow},
      {"buckets", options.buckets},
      {"embedding_dim", options.shape.embedding_dim},
      {"levels", options.shape.levels},
      {"experts", options.shape.experts},
      {"expert_hidden", options.shape.expert_hidden},
      {"expert_outputs", options.shape.expert_outputs},
      {"tower_hidden", options.shape.tower_hidden}};
  described.update(training::describe(static_cast<training::StepOptions const&>(options)));
  described.update(training::describe(static_cast<training::RankOptions const&>(options)));
  return described;
}

PleShape shape_of(PleOptions const& options, training::TrainingData const& data) {
  auto shape = options.shape;
  shape.table_rows = data.table_rows;
  shape.continuous = data.columns.continuous;
  shape.tasks = static_cast<int>(data.columns.tasks());
  shape.seed = options.seed;
  return shape;
}

training::TrainingData load_training_data(PleOptions const& options) {
  bool const generates = options.data.empty();
  auto const buckets = generates && options.buckets == 0 ? kGeneratedBuckets : options.buckets;
  std::unique_ptr<ms::data::Reader> reader;
  if (generates) {
    reader = std::make_unique<datasets::GeneratedReader>(
        datasets::GeneratedOptions{.rows = options.rows,
                                   .seed = options.seed,
                                   .hotness = options.hotness,
                                   .tasks = options.tasks});
  } else {
    reader = datasets::open_data(
        options.data, {.format = datasets::DataFormat::census, .never_married_task = true});
  }
  auto data = training::load_training_data(
      *reader,
      generates ? fmt::format("generated data, seed {}", options.seed) : options.data,
      {.holdout = options.holdout, .buckets = buckets});
  if (data.training_rows < options.batch) {
    throw UsageError(fmt::format(
        "{} rows to train on fill no batch; expected a --batch of at most as many, found {}",
        data.training_rows,
        options.batch));
  }
  return data;
}

}  // namespace train_ple
