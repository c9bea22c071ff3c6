// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/load_plan.hpp>
#include <msstream/support/serve_options.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace serve_wdl {

namespace ms = msstream;
using ms::support::LoadMode;

/// A lookup for each field, or one for all.
enum class TableForm : std::uint8_t { branches, fused };

/// What serve_wdl was asked to do; the values here are the defaults.
struct WdlOptions : ms::support::ServeOptions {
  std::string model;  ///< empty: random weights of the shape below
  TableForm tables = TableForm::branches;
  std::int64_t fields = 26;
  std::int64_t hotness = 4;
  std::int64_t table_rows = 100'000;
  std::int64_t embedding_dim = 16;
  std::int64_t continuous = 13;
  std::vector<std::int64_t> layers = {1024, 512, 256};

  LoadMode mode = LoadMode::closed;
  int clients = 0;  ///< 0: twice the places of all replicas, or of an open load a few
  int in_flight = 1;
  double rate = 0;
  double load_factor = 0;
  double seconds = 5;

  bool sweep = false;
  std::vector<int> sweep_replicas = {1, 2, 4, 8, 16};
  std::string svg;

  /// Of a pool that is set up so.
  [[nodiscard]] ms::support::LoadPlan plan(ms::support::ServeSetting const& setting) const;
  [[nodiscard]] ms::support::LoadPlan plan() const { return plan(*this); }
};

/// Throws support::UsageError for values that are not accepted or contradict each other,
/// support::HelpRequested.
[[nodiscard]] WdlOptions parse_options(ms::support::Arguments const& arguments);

/// The options as the report shows them.
[[nodiscard]] nlohmann::ordered_json describe(WdlOptions const& options);

/// Serves as asked, and returns the report. Throws what goes wrong.
nlohmann::ordered_json serve_on_host(WdlOptions const& options);
nlohmann::ordered_json serve_on_cuda(WdlOptions const& options);

}  // namespace serve_wdl
