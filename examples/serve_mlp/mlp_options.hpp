// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/serve_options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <vector>

namespace serve_mlp {

namespace ms = msstream;

/// The command-line options of the program serve_mlp, with their defaults.
struct MlpOptions : ms::load::ServeOptions {
  MlpOptions() { batch = 16; }

  /// The widths of the perceptron's inputs, its hidden layers and its outputs, in this order.
  std::vector<std::int64_t> layers = {2048, 1024, 512, 256, 128, 64};
  int threads = 4;
  std::int64_t iterations = 1000;
};

/// Reads the options from arguments and environment. Throws cli::UsageError for values that are
/// not accepted or contradict each other, and cli::HelpRequested for --help.
[[nodiscard]] MlpOptions parse_options(ms::cli::Arguments const& arguments);

/// Returns the options as JSON, for the program's report.
[[nodiscard]] nlohmann::ordered_json describe(MlpOptions const& options);

/// Serves the model as the options say, and returns the report. Throws if serving fails.
nlohmann::ordered_json serve_on_host(MlpOptions const& options);
nlohmann::ordered_json serve_on_cuda(MlpOptions const& options);

}  // namespace serve_mlp
