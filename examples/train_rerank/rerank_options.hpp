// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rerank_shape.hpp"

#include <msstream/support/rank_lists.hpp>
#include <msstream/support/split.hpp>
#include <msstream/support/step_options.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace train_rerank {

/// What train_rerank was asked to do; the values here are the defaults.
struct RerankOptions : ms::support::StepOptions {
  /// Few columns, for which a thousand lists are enough to learn from.
  RerankOptions() { shape.columns = 16; }

  std::string data;
  std::string test;
  std::int64_t queries = ms::support::GeneratedLists{}.queries;
  std::int64_t holdout = 5;
  std::int64_t list = 0;  ///< 0: chosen by the data; of generated data 50
  /// The columns are those of generated data, and else the data's.
  RerankShape shape;

  std::int64_t batch = 32;
  std::int64_t epochs = 3;
};

/// The lists in memory, and which of them are held out.
struct RerankData {
  ms::support::RankLists lists;
  ms::support::Split split;    ///< numbers of queries
  std::int64_t places = 0;     ///< in a list; none is longer
  std::int64_t cut_lists = 0;  ///< how many were longer
  std::string origin;          ///< for people
};

/// Throws support::UsageError for values that are not accepted or contradict each other,
/// support::HelpRequested.
[[nodiscard]] RerankOptions parse_options(ms::support::Arguments const& arguments);

/// The options as the report shows them.
[[nodiscard]] nlohmann::ordered_json describe(RerankOptions const& options);

/// Reads or generates. Throws support::DataError, and support::UsageError when what is left to
/// train on fills no batch, or there are more groups than features.
[[nodiscard]] RerankData load_data(RerankOptions const& options);

/// Trains as asked, writes the files asked for, and returns the report. Throws what goes wrong.
nlohmann::ordered_json train_on_host(RerankOptions const& options, RerankData const& data);
nlohmann::ordered_json train_on_cuda(RerankOptions const& options, RerankData const& data);

}  // namespace train_rerank
