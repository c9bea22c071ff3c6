// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/load_plan.hpp"
#include "load/serve_options.hpp"

#include <msstream/ops/precision.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace serve_wdl {

namespace ms = msstream;
using ms::load::LoadMode;

/// The form of the tables: a lookup for each field, or one lookup for all fields.
enum class TableForm : std::uint8_t { branches, fused };

/// The command-line options of the program serve_wdl, with their defaults.
struct WdlOptions : ms::load::ServeOptions {
  std::string model;  ///< path of a saved model; empty: random weights
  TableForm tables = TableForm::branches;
  std::int64_t fields = 26;
  std::int64_t hotness = 4;
  std::int64_t table_rows = 100'000;
  std::int64_t embedding_dim = 16;
  std::int64_t continuous = 13;
  std::vector<std::int64_t> layers = {1024, 512, 256};
  ms::Precision precision = ms::Precision::fp32;  ///< of the deep part's layers

  LoadMode mode = LoadMode::closed;
  int clients = 0;  ///< threads; 0: 2 * replicas * depth, at most 256; a few for an open load
  int in_flight = 1;
  double rate = 0;
  double load_factor = 0;
  double seconds = 5;

  bool sweep = false;
  std::vector<int> sweep_replicas = {1, 2, 4, 8, 16};
  std::string svg;

  /// Returns the plan of the load test for a pool with this setting.
  [[nodiscard]] ms::load::LoadPlan plan(ms::load::ServeSetting const& setting) const;
  [[nodiscard]] ms::load::LoadPlan plan() const { return plan(*this); }
};

/// Reads the options from arguments and environment. Throws cli::UsageError for values that are
/// not accepted or contradict each other, and cli::HelpRequested for --help.
[[nodiscard]] WdlOptions parse_options(ms::cli::Arguments const& arguments);

/// Returns the options as JSON, for the program's report.
[[nodiscard]] nlohmann::ordered_json describe(WdlOptions const& options);

/// Serves the model as the options say, and returns the report. Throws if serving fails.
nlohmann::ordered_json serve_on_host(WdlOptions const& options);
nlohmann::ordered_json serve_on_cuda(WdlOptions const& options);

}  // namespace serve_wdl
