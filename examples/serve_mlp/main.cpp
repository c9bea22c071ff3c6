// SPDX-License-Identifier: Apache-2.0
#include "mlp_options.hpp"

#include <msstream/support/report.hpp>
#include <msstream/support/serve_report.hpp>

#include <iostream>

namespace serve_mlp {
namespace {

namespace support = ms::support;

nlohmann::ordered_json serve(MlpOptions const& options) {
#if MSSTREAM_CUDA
  if (options.runtime == support::RuntimeChoice::cuda) {
    return serve_on_cuda(options);
  }
#endif
  return serve_on_host(options);
}

void run(support::Arguments const& arguments) {
  auto const options = parse_options(arguments);
  support::require_runtime(options);
  if (!options.quiet) {
    std::cerr << ms::text("perceptron of ",
                          options.layers.size() - 1,
                          " layers, ",
                          options.batch,
                          " rows a query; ",
                          options.threads,
                          " threads, ",
                          options.iterations,
                          " queries each; ",
                          support::placement_text(options),
                          "\n");
  }
  support::conclude(options, serve(options));
}

}  // namespace
}  // namespace serve_mlp

int main(int argc, char** argv) {
  return msstream::support::run_program(argc, argv, serve_mlp::run);
}
