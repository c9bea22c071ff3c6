// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ple_shape.hpp"
#include "training/rank_options.hpp"
#include "training/step_options.hpp"
#include "training/table_parts.hpp"
#include "training/training_data.hpp"

#include <msstream/comm/world.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace train_ple {

/// The form of the PLE model: each operation in a branch, or few large operations.
enum class PleForm : std::uint8_t { branches, grouped };

/// The command-line options of the program train_ple, with their defaults.
struct PleOptions : ms::training::StepOptions, ms::training::RankOptions {
  std::string data;
  std::int64_t rows = 40'000;
  int tasks = PleShape{}.tasks;
  std::int64_t hotness = 4;
  std::int64_t holdout = 5;
  int reader_threads = 2;

  PleForm form = PleForm::branches;
  std::int64_t buckets = 0;  ///< rows of a table; 0: chosen by the data; 100,000 for generated data
  /// The shape of the model, except its fields and tasks, which the data determines.
  PleShape shape;

  std::int64_t batch = 512;
  std::int64_t epochs = 1;

  /// Returns the options of one of the ranks, of which those but rank 0 print and write nothing.
  [[nodiscard]] PleOptions of_rank(int rank) const;
};

/// Reads the options from arguments and environment. Throws cli::UsageError for values that are
/// not accepted or contradict each other, and cli::HelpRequested for --help.
[[nodiscard]] PleOptions parse_options(ms::cli::Arguments const& arguments);

/// Returns the options as JSON, for the program's report.
[[nodiscard]] nlohmann::ordered_json describe(PleOptions const& options);

/// Reads or generates the data. Throws DataError, and cli::UsageError if the rows to
/// train on fill no batch.
[[nodiscard]] ms::training::TrainingData load_training_data(PleOptions const& options);

/// Returns the shape of the model that the options and the data describe.
[[nodiscard]] PleShape shape_of(PleOptions const& options, ms::training::TrainingData const& data);

/// Trains one rank as the options say, writes the files that they name, and returns the report.
/// Ranks that are threads share the data; a rank that is alone takes the training rows out of it.
/// `parts`, if there are any, are the tables in parts on all ranks. Throws if training fails.
nlohmann::ordered_json train_on_host(PleOptions const& options,
                                     ms::training::TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts);
nlohmann::ordered_json train_on_cuda(PleOptions const& options,
                                     ms::training::TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts);

}  // namespace train_ple
