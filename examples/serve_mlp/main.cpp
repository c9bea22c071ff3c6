// SPDX-License-Identifier: Apache-2.0
#include "cli/report.hpp"
#include "load/serve_report.hpp"
#include "mlp_options.hpp"

#include <fmt/core.h>

#include <iostream>

namespace serve_mlp {
namespace {

namespace cli = ms::cli;
namespace load = ms::load;

nlohmann::ordered_json serve(MlpOptions const& options) {
#if MSSTREAM_CUDA
  if (options.runtime == cli::RuntimeChoice::cuda) {
    return serve_on_cuda(options);
  }
#endif
  return serve_on_host(options);
}

void run(cli::Arguments const& arguments) {
  auto const options = parse_options(arguments);
  load::require_runtime(options);
  if (!options.quiet) {
    std::cerr << fmt::format(
        "perceptron of {} layers, {} rows a query; {} threads, {} queries each; {}\n",
        options.layers.size() - 1,
        options.batch,
        options.threads,
        options.iterations,
        load::placement_text(options));
  }
  load::conclude(options, serve(options));
}

}  // namespace
}  // namespace serve_mlp

int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, serve_mlp::run);
}
