// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/rank_lists.hpp"
#include "datasets/split.hpp"
#include "rerank_shape.hpp"
#include "training/rank_options.hpp"
#include "training/step_options.hpp"

#include <msstream/comm/world.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace train_rerank {

/// The command-line options of the program train_rerank, with their defaults.
struct RerankOptions : ms::training::StepOptions, ms::training::RankOptions {
  /// Sets a small number of columns, for which a thousand lists are enough to learn from.
  RerankOptions() { shape.columns = 16; }

  std::string data;
  std::string test;
  std::int64_t queries = ms::datasets::GeneratedLists{}.queries;
  std::int64_t holdout = 5;
  std::int64_t list = 0;  ///< items in a list; 0: chosen by the data; 50 for generated data
  /// The shape of the model. Its number of columns is for generated data; a data file determines
  /// its own.
  RerankShape shape;

  std::int64_t batch = 32;
  std::int64_t epochs = 3;

  /// Returns the options of one of the ranks, of which those but rank 0 print and write nothing.
  [[nodiscard]] RerankOptions of_rank(int rank) const;
};

/// The lists in memory, and their division into training and held-out lists.
struct RerankData {
  ms::datasets::RankLists lists;
  ms::datasets::Split split;   ///< numbers of the queries, for training and held out
  std::int64_t places = 0;     ///< items in a list, with padding; no list is longer
  std::int64_t cut_lists = 0;  ///< number of lists that were longer and have been cut
  std::string origin;          ///< description of the data for people
};

/// Reads the options from arguments and environment. Throws cli::UsageError for values that are
/// not accepted or contradict each other, and cli::HelpRequested for --help.
[[nodiscard]] RerankOptions parse_options(ms::cli::Arguments const& arguments);

/// Returns the options as JSON, for the program's report.
[[nodiscard]] nlohmann::ordered_json describe(RerankOptions const& options);

/// Reads or generates the lists. Throws DataError, and cli::UsageError if the lists to
/// train on fill no batch, or if there are more groups than features.
[[nodiscard]] RerankData load_data(RerankOptions const& options);

/// Trains one rank as the options say, writes the files that they name, and returns the report.
/// Throws if training fails.
nlohmann::ordered_json train_on_host(RerankOptions const& options,
                                     RerankData const& data,
                                     ms::comm::World const& world);
nlohmann::ordered_json train_on_cuda(RerankOptions const& options,
                                     RerankData const& data,
                                     ms::comm::World const& world);

}  // namespace train_rerank
