// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/serve_options.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <vector>

namespace serve_mlp {

namespace ms = msstream;

/// What serve_mlp was asked to do; the values here are the defaults.
struct MlpOptions : ms::support::ServeOptions {
  MlpOptions() { batch = 16; }

  /// The inputs, the hidden layers, the outputs.
  std::vector<std::int64_t> layers = {2048, 1024, 512, 256, 128, 64};
  int threads = 4;
  std::int64_t iterations = 1000;
};

/// Throws support::UsageError for values that are not accepted or contradict each other,
/// support::HelpRequested.
[[nodiscard]] MlpOptions parse_options(ms::support::Arguments const& arguments);

/// The options as the report shows them.
[[nodiscard]] nlohmann::ordered_json describe(MlpOptions const& options);

/// Serves as asked, and returns the report. Throws what goes wrong.
nlohmann::ordered_json serve_on_host(MlpOptions const& options);
nlohmann::ordered_json serve_on_cuda(MlpOptions const& options);

}  // namespace serve_mlp
