// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"
#include "cli/stream_options.hpp"
#include "datasets/readers.hpp"
#include "training/dashboard_option.hpp"
#include "training/float16_options.hpp"
#include "training/rank_options.hpp"
#include "training/step_setting.hpp"
#include "training/step_trace_options.hpp"
#include "training/streaming_options.hpp"
#include "training/update_options.hpp"

#include <msstream/ops/precision.hpp>
#include <msstream/runtime/checker.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace train_wdl {

namespace ms = msstream;

using ms::cli::RuntimeChoice;

/// How the model looks up rows: for each field, or for all at once.
enum class TableForm : std::uint8_t { branches, fused };

/// The command-line options of the program train_wdl, with their defaults.
struct TrainOptions : ms::cli::StreamOptions,
                      ms::training::UpdateOptions,
                      ms::training::RankOptions,
                      ms::training::DashboardOption,
                      ms::training::StepTraceOptions,
                      ms::training::Float16Options,
                      ms::training::StreamingOptions {
  std::string data;
  msstream::datasets::DataFormat format = msstream::datasets::DataFormat::automatic;
  std::int64_t rows = 400'000;
  std::int64_t holdout = 5;

  TableForm tables = TableForm::branches;
  int embedding_dim = 16;
  std::vector<std::int64_t> layers = {256, 128};
  std::int64_t buckets = 0;
  ms::Precision precision = ms::Precision::fp32;  ///< of the hidden layers
  bool tf32 = false;

  std::int64_t batch = 512;
  std::int64_t epochs = 1;
  std::int64_t steps = 0;
  bool capture = false;
  std::uint64_t seed = 1;
  int reader_threads = 2;

  bool check = false;
  msstream::CheckMode check_mode = msstream::CheckMode::log;
  std::string check_report;

  std::string save;
  std::string resume;
  std::string report;
  std::string trace;
  bool is_traced_by_others = false;  ///< whether another rank writes --trace
  std::string overlap;
  bool quiet = false;

  /// Returns whether the tables are in parts on all ranks. Otherwise every rank has them.
  [[nodiscard]] bool has_tables_in_parts() const noexcept {
    return parallel == ms::training::Parallel::sharded;
  }
  /// Returns whether a step is recorded for --trace, of this rank or of another one. All ranks
  /// issue it eagerly.
  [[nodiscard]] bool traces_step() const { return is_traced_by_others || !trace.empty(); }
  /// Returns how the steps are issued.
  [[nodiscard]] ms::training::StepSetting setting() const;
  /// Returns the options of one of the ranks, of which those but rank 0 print and write nothing.
  /// All ranks take part in saving tables in parts, and keep --save.
  [[nodiscard]] TrainOptions of_rank(int rank) const;
};

/// Reads the options from arguments and environment. Throws cli::UsageError for values that are
/// not accepted or contradict each other, and cli::HelpRequested for --help.
[[nodiscard]] TrainOptions parse_options(msstream::cli::Arguments const& arguments);

/// Returns the options as JSON, for the program's report.
[[nodiscard]] nlohmann::ordered_json describe(TrainOptions const& options);

}  // namespace train_wdl
