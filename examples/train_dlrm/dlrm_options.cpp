// SPDX-License-Identifier: Apache-2.0
#include "dlrm_options.hpp"

#include "cli/precision_option.hpp"
#include "datasets/generated.hpp"
#include "datasets/readers.hpp"
#include "training/step_report.hpp"
#include "training/step_timeline.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <iostream>

namespace train_dlrm {

namespace cli = ms::cli;
namespace datasets = ms::datasets;
namespace training = ms::training;
using cli::UsageError;

namespace {

constexpr char const* kDescription =
    "Trains a DLRM on clicks in Criteo's shape: 13 numbers and 26 fields of ids, with the tables\n"
    "of MLPerf's benchmark, each cut to --max-rows. --interaction cross is DCN-v2, dot the first\n"
    "DLRM. Without --data it trains on generated multi-hot data with a relation to learn. The\n"
    "losses of a precision are the same bits for any number of groups and any way of launching.\n"
    "The last rows of an epoch that fill no batch are left out; which they are differs from epoch\n"
    "to epoch.";

/// Throws UsageError for options that steps in two stages do not have.
void check_two_stage(DlrmOptions const& options) {
  if (!options.two_stage()) {
    return;
  }
  for (auto const& [is_chosen, option] :
       {std::pair(options.parts() > 1,
                  "batches in several parts, by --ranks, --parallel or "
                  "--reproducible"),
        std::pair(options.has_tables_in_parts(), "--parallel sharded"),
        std::pair(options.find_overflow, "--find-overflow"),
        std::pair(options.chooses_groups(), "--assignment auto, which traces steps in turn"),
        std::pair(options.records_step(), "--waits and --step-trace, which trace steps in turn"),
        std::pair(options.capture && !options.trace.empty(),
                  "--trace and --capture together; leave out --capture to see the operations")}) {
    if (is_chosen) {
      throw UsageError(fmt::format("--two-stage does not go with {}", option));
    }
  }
}

/// Throws UsageError for options with which rows have no stream group of their own.
void check_rows_beside(DlrmOptions const& options) {
  if (!options.shape.rows_beside) {
    return;
  }
  if (options.stream_groups < 2) {
    throw UsageError("--rows-beside needs --stream-groups of 2 or more");
  }
  for (auto const& [is_chosen, option] :
       {std::pair(options.shape.tables == TableForm::branches, "--tables branches"),
        std::pair(options.has_tables_in_parts(), "--parallel sharded"),
        std::pair(options.two_stage().has_value(), "--two-stage")}) {
    if (is_chosen) {
      throw UsageError(
          fmt::format("--rows-beside does not go with {}, which places rows itself", option));
    }
  }
}

void check(DlrmOptions& options) {
  std::vector<cli::InputOption> inputs{{"--resume", options.resume, "--save"}};
  training::add_data_files(options.data, inputs);
  std::vector<cli::OutputOption> outputs{{"--save", options.save, ms::OutputFile::Kind::regular}};
  training::add_plan(options, inputs, outputs);
  training::check(options, inputs, outputs);
  training::check_ranks(options, options.batch);
  training::check_with_ranks(options, options);
  training::check_streaming(options, options.data);
  if (options.holdout == 1) {
    throw UsageError("--holdout 1 would hold out every row; expected 0 (none) or at least 2");
  }
  auto const& shape = options.shape;
  options.staleness = options.two_stage();
  options.scaling = training::loss_scale_of(options, shape.precision);
  options.copies = shape.precision;
  if (shape.half_tables && shape.precision == ms::Precision::fp32) {
    throw UsageError("--half-tables goes with --precision bf16 or fp16");
  }
  if (options.table_rounding != ms::OptimizerOptions::Rounding::nearest && !shape.half_tables) {
    throw UsageError(
        "--table-rounding stochastic goes with --half-tables; rows of float32 are not rounded");
  }
  if (shape.tables == TableForm::branches &&
      (shape.is_multi_hot || options.has_tables_in_parts())) {
    throw UsageError(fmt::format("--tables branches does not go with {}",
                                 shape.is_multi_hot
                                     ? "--multi-hot, whose lists of all fields are one tensor"
                                     : "--parallel sharded, which looks up all tables at once"));
  }
  check_two_stage(options);
  check_rows_beside(options);
  if (shape.is_multi_hot && options.data.empty()) {
    throw UsageError("--multi-hot describes a file: give --data; generated data is multi-hot");
  }
  if (options.rows && !options.data.empty()) {
    throw UsageError("--rows is for generated data; all rows of --data are used");
  }
  if (!options.data.empty() && !shape.is_multi_hot &&
      shape.max_hotness != DlrmShape{}.max_hotness) {
    throw UsageError(
        "--max-hotness is for generated data and --multi-hot; a file of --data has one id a field");
  }
  if (shape.top.back() != 1) {
    throw UsageError(fmt::format("--top ends with {}; expected 1, the logit", shape.top.back()));
  }
}

void add_model_options(cli::Options& options, DlrmOptions& chosen) {
  auto& shape = chosen.shape;
  options.group("Model");
  options.add_choice("--interaction",
                     shape.interaction,
                     {{"cross", Interaction::cross}, {"dot", Interaction::dot}},
                     "the cross network of DCN-v2, or dot products");
  options.add_choice("--tables",
                     shape.tables,
                     {{"branches", TableForm::branches}, {"fused", TableForm::fused}},
                     "a lookup for each table, on the stream groups in turn, or one for all");
  options.add_flag("--rows-beside",
                   shape.rows_beside,
                   "a stream group for lookups, grouping of ids and updates of fused tables");
  cli::add_precision_option(
      options, shape.precision, "of the products and between the layers; fp16 scales the loss");
  options.add_flag(
      "--fp8-products",
      shape.fp8_products,
      "multiply 8-bit floats in top and bottom layers of 16 inputs and outputs or more");
  training::add_options(options, static_cast<training::Float16Options&>(chosen));
  options.add_flag(
      "--half-tables", shape.half_tables, "rows of tables in the half precision of --precision");
  options.add_choice(
      "--table-rounding",
      chosen.table_rounding,
      {{"nearest", ms::OptimizerOptions::Rounding::nearest},
       {"stochastic", ms::OptimizerOptions::Rounding::stochastic}},
      "of updated rows of --half-tables; stochastic keeps the mean of small updates, "
      "by --seed");
  options.add<std::int64_t>(
      "--max-rows", shape.max_rows, "rows of a table at most", {1, 1'000'000'000});
  options.add<std::int64_t>(
      "--max-hotness", shape.max_hotness, "ids of a field at most, the first ones", {1, 10'000});
  options.add<std::int64_t>("--dimension", shape.dimension, "width of the tables", {1, 1024});
  options.add<std::int64_t>(
      "--bottom", shape.bottom, "outputs of the bottom layers but the last", {1, 65536});
  options.add<std::int64_t>("--top", shape.top, "outputs of the top layers", {1, 65536});
  options.add<std::int64_t>(
      "--cross-layers", shape.cross_layers, "layers of the cross network", {1, 64});
  options.add<std::int64_t>(
      "--cross-rank", shape.cross_rank, "columns of a cross layer's inner product", {1, 65536});
}

}  // namespace

std::optional<ms::Staleness> DlrmOptions::two_stage() const noexcept {
  return stages == Stages::none
             ? std::nullopt
             : std::optional(stages == Stages::exact ? ms::Staleness::exact
                                                     : ms::Staleness::one_step_stale);
}

DlrmOptions DlrmOptions::of_rank(int rank) const {
  auto options = *this;
  if (rank != 0) {
    options.silence();
    if (!has_tables_in_parts()) {
      options.save.clear();
    }
  }
  return options;
}

DlrmOptions parse_options(cli::Arguments const& arguments) {
  DlrmOptions chosen;
  training::read_library_variables(chosen);
  cli::Options options(
      kDescription,
      {{"train_dlrm", "DCN-v2 on generated data, tables of up to 100,000 rows"},
       {"train_dlrm --precision bf16 --capture --max-rows 1000000 --batch 8192 --rows 1000000",
        "in bfloat16, the second step captured and replayed"},
       {"train_dlrm --data train.txt --interaction dot",
        "Criteo's file: a label, 13 numbers and 26 words, separated by tabs"},
       {"train_dlrm --data day_0.parquet --multi-hot --max-hotness 20",
        "fields of lists, of which the first 20 ids are used"},
       {"train_dlrm --data day_0,day_1,day_2 --stream --shuffle-rows 1000000",
        "files that do not fit into memory, a million rows of which are shuffled at a time"},
       {"train_dlrm --precision bf16 --steps 20 --waits --step-trace step.svg",
        "how many waits a step needs, and a picture of it"},
       {"train_dlrm --tables branches --stream-groups 7 --two-stage exact --capture",
        "a lookup for each table on 7 groups, ids of the next batch hashed beside a step"},
       {"train_dlrm --steps 10 --save m.safetensors", "stop early and keep the model"},
       {"train_dlrm --resume m.safetensors --steps 20", "go on from there, with the same bits"},
       {"train_dlrm --ranks 2", "2 ranks, each with half of the rows of each batch"},
       {"train_dlrm --ranks 4 --parallel sharded --lookahead rows --plan plan.json",
        "each rank has a part of the tables, by the plan in a file; ids and rows of the next batch "
        "are sent early"}});
  options.group("Data");
  options.add("--data",
              chosen.data,
              "Criteo's clicks as TSV, CSV (gzipped or not) or Parquet; generated data without it",
              "a path, or several with commas between them");
  options.add_flag("--multi-hot",
                   chosen.shape.is_multi_hot,
                   "a field of --data has any number of ids: words with | between them, or a list "
                   "in Parquet");
  options.add<std::int64_t>("--rows",
                            chosen.rows,
                            DlrmOptions::kGeneratedRows,
                            "rows of generated data",
                            {1, 1'000'000'000});
  options.add<std::int64_t>(
      "--holdout", chosen.holdout, "every how-manieth row is for testing; 0: none", {0, 1'000'000});
  training::add_options(options, static_cast<training::StreamingOptions&>(chosen));
  options.add<std::int64_t>(
      "--batch", chosen.batch, "rows a step, of all ranks together", {1, 1 << 20});
  options.add<std::int64_t>(
      "--epochs", chosen.epochs, "passes over the training rows", {1, 100'000});
  options.add<int>(
      "--reader-threads", chosen.reader_threads, "threads that fill batches ahead", {1, 64});
  add_model_options(options, chosen);
  training::add_options(
      options, static_cast<training::RankOptions&>(chosen), training::TablesInParts::yes);
  options.group("Stages");
  options.add_choice("--two-stage",
                     chosen.stages,
                     {{"none", Stages::none}, {"exact", Stages::exact}, {"stale", Stages::stale}},
                     "a stage of the next batch beside this step. exact: hashing of ids, and with "
                     "--tables branches their grouping, with the same losses; stale: also the "
                     "lookups, of rows one step older");
  training::add_options(options, static_cast<training::StepOptions&>(chosen));
  options.add("--save", chosen.save, "model and optimizer at the end, as safetensors", "a path");
  options.add("--resume", chosen.resume, "go on from a saved model", "a path");
  options.parse(arguments, std::cerr);
  check(chosen);
  chosen.shape.seed = chosen.seed;
  if (!chosen.data.empty()) {
    chosen.shape.hashes_ids = !chosen.shape.is_multi_hot;  // lists have been hashed by a transform
    if (!chosen.shape.is_multi_hot) {
      chosen.shape.max_hotness = 1;
    }
  }
  training::open_dashboard(
      chosen,
      {.program = "train_dlrm",
       .what = training::placement_text(chosen) + training::data_text(chosen.data) +
               training::timelines_text(chosen.capture, chosen.ranks == 1 && !chosen.two_stage()),
       .unit = "rows",
       .ranks = chosen.ranks},
      chosen.process.rank());
  return chosen.of_rank(chosen.process.rank());
}

nlohmann::ordered_json describe(DlrmOptions const& options) {
  auto const& shape = options.shape;
  nlohmann::ordered_json described = {
      {"data", options.data},
      {"rows",
       options.data.empty() ? nlohmann::ordered_json(options.generated_rows())
                            : nlohmann::ordered_json(nullptr)},
      {"holdout", options.holdout},
      {"batch", options.batch},
      {"epochs", options.epochs},
      {"reader_threads", options.reader_threads},
      {"tables", shape.tables == TableForm::branches ? "branches" : "fused"},
      {"rows_beside", shape.rows_beside},
      {"interaction", shape.interaction == Interaction::cross ? "cross" : "dot"},
      {"precision", cli::name_of(shape.precision)},
      {"fp8_products", shape.fp8_products},
      {"half_tables", shape.half_tables},
      {"table_rounding",
       options.table_rounding == ms::OptimizerOptions::Rounding::stochastic ? "stochastic"
                                                                            : "nearest"},
      {"loss_scale", options.loss_scale},
      {"find_overflow", options.find_overflow},
      {"multi_hot", shape.is_multi_hot},
      {"max_rows", shape.max_rows},
      {"max_hotness", shape.max_hotness},
      {"dimension", shape.dimension},
      {"bottom", shape.bottom},
      {"top", shape.top},
      {"cross_layers", shape.cross_layers},
      {"cross_rank", shape.cross_rank},
      {"two_stage",
       options.stages == Stages::none    ? "none"
       : options.stages == Stages::exact ? "exact"
                                         : "stale"},
      {"save", options.save},
      {"resume", options.resume}};
  described.update(training::describe(static_cast<training::StreamingOptions const&>(options)));
  described.update(training::describe(static_cast<training::StepOptions const&>(options)));
  described.update(training::describe(static_cast<training::RankOptions const&>(options)));
  return described;
}

namespace {

/// Returns how --data is read. The ids of lists become rows of the tables, the same ones as those
/// of ops::hash_to_bucket() on all fields.
datasets::ReaderOptions reader_options(DlrmShape const& shape) {
  using ms::data::Transform;
  datasets::ReaderOptions options;
  for (std::size_t field = 0; shape.is_multi_hot && field < kFields; ++field) {
    options.lists.push_back({Transform::first(shape.max_hotness),
                             Transform::hash({.buckets = shape.rows(field), .salt = field})});
  }
  return options;
}

/// Says on the standard error which fields have longer lists than are used.
void note_cut_lists(DlrmShape const& shape, std::vector<std::int64_t> const& longest) {
  for (std::size_t field = 0; shape.is_multi_hot && field < longest.size(); ++field) {
    if (longest[field] > shape.max_hotness) {
      std::cerr << fmt::format(
          "train_dlrm: field C{} has lists of up to {} ids, of which the first {} are used "
          "(--max-hotness)\n",
          field + 1,
          longest[field],
          shape.max_hotness);
    }
  }
}

}  // namespace

training::TrainingData load_training_data(DlrmOptions const& options) {
  training::TrainingDataOptions const rows{.holdout = options.holdout,
                                           .buckets = options.shape.max_rows};
  auto data = [&] {
    if (!options.data.empty()) {
      return training::data_of_files({.data = options.data,
                                      .reader = reader_options(options.shape),
                                      .rows = rows,
                                      .copies = options.copies_of_rows(),
                                      .resume = options.resume,
                                      .quiet = options.quiet},
                                     options);
    }
    datasets::GeneratedOptions chosen{
        .rows = options.generated_rows(), .seed = options.seed, .has_small_keys = true};
    for (std::size_t field = 0; field < kFields; ++field) {
      chosen.hotness_of_fields.push_back(options.shape.hotness(field));
      chosen.cardinalities.push_back(options.shape.rows(field));
    }
    datasets::GeneratedReader reader(chosen);
    return training::load_training_data(
        reader, fmt::format("generated data, seed {}", options.seed), rows);
  }();
  if (data.columns.fields() != static_cast<std::int64_t>(kFields) ||
      data.columns.continuous != kNumbers) {
    throw UsageError(
        fmt::format("--data {}: {} fields of words and {} numbers; expected those of "
                    "Criteo's clicks, {} and {}",
                    options.data,
                    data.columns.fields(),
                    data.columns.continuous,
                    kFields,
                    kNumbers));
  }
  if (!options.quiet) {
    note_cut_lists(options.shape, data.most_keys);
  }
  if (data.training_rows < options.batch) {
    throw UsageError(fmt::format(
        "{} rows to train on fill no batch; expected a --batch of at most as many, found {}",
        data.training_rows,
        options.batch));
  }
  return data;
}

}  // namespace train_dlrm
