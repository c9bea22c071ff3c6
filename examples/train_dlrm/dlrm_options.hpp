// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dlrm_shape.hpp"
#include "training/rank_options.hpp"
#include "training/step_options.hpp"
#include "training/streaming_options.hpp"
#include "training/table_parts.hpp"
#include "training/training_data.hpp"

#include <msstream/comm/world.hpp>
#include <msstream/step/two_stage.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace train_dlrm {

/// Whether a step is in two stages, the first of which runs beside the training on the batch
/// before: the hashes of ids, those of tables in branches grouped, and with `stale` the lookups.
enum class Stages : std::uint8_t { none, exact, stale };

/// The command-line options of the program train_dlrm, with their defaults.
struct DlrmOptions : ms::training::StepOptions,
                     ms::training::RankOptions,
                     ms::training::StreamingOptions {
  static constexpr std::int64_t kGeneratedRows = 65'536;

  DlrmOptions() {
    optimizer = ms::ops::OptimizerKind::rowwise_adagrad;
    learning_rate = 0.01F;
  }

  std::string data;
  std::optional<std::int64_t> rows = {};  ///< of generated data; kGeneratedRows if not given
  std::int64_t holdout = 5;
  int reader_threads = 2;
  /// The shape of the model. A data file has one id a field, or lists with --multi-hot.
  DlrmShape shape{.max_rows = 100'000};
  std::int64_t batch = 2'048;
  std::int64_t epochs = 1;
  Stages stages = Stages::none;
  std::string save;
  std::string resume;

  /// Returns the number of rows of generated data.
  [[nodiscard]] std::int64_t generated_rows() const noexcept {
    return rows.value_or(kGeneratedRows);
  }
  /// Returns which updates the lookups of a step in two stages see, if steps are in two stages.
  [[nodiscard]] std::optional<ms::Staleness> two_stage() const noexcept;
  /// Returns whether the tables are in parts on all ranks. Otherwise every rank has them.
  [[nodiscard]] bool has_tables_in_parts() const noexcept {
    return parallel == ms::training::Parallel::sharded;
  }
  /// Returns the options of one of the ranks, of which those but rank 0 print and write nothing.
  /// All ranks take part in saving tables in parts, and keep --save.
  [[nodiscard]] DlrmOptions of_rank(int rank) const;
};

/// Reads the options from arguments and environment. Throws cli::UsageError for values that are
/// not accepted or contradict each other, and cli::HelpRequested for --help.
[[nodiscard]] DlrmOptions parse_options(ms::cli::Arguments const& arguments);

/// Returns the options as JSON, for the program's report.
[[nodiscard]] nlohmann::ordered_json describe(DlrmOptions const& options);

/// Reads or generates the data. Throws DataError, and cli::UsageError if the rows to train on fill
/// no batch, and for data of other fields than Criteo's.
[[nodiscard]] ms::training::TrainingData load_training_data(DlrmOptions const& options);

/// Trains one rank as the options say, writes the files that they name, and returns the report.
/// Ranks that are threads share the data; a rank that is alone takes the training rows out of it.
/// `parts`, if there are any, are the tables in parts on all ranks. Throws if training fails.
nlohmann::ordered_json train_on_host(DlrmOptions const& options,
                                     ms::training::TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts);
nlohmann::ordered_json train_on_cuda(DlrmOptions const& options,
                                     ms::training::TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts);

}  // namespace train_dlrm
