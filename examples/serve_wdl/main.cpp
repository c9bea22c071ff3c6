// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"
#include "load/serve_report.hpp"
#include "sweep.hpp"
#include "wdl_options.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <iostream>

namespace serve_wdl {
namespace {

namespace cli = ms::cli;
namespace load = ms::load;

nlohmann::ordered_json serve(WdlOptions const& options) {
#if MSSTREAM_CUDA
  if (options.runtime == cli::RuntimeChoice::cuda) {
    return serve_on_cuda(options);
  }
#endif
  return serve_on_host(options);
}

std::string load_text(WdlOptions const& options) {
  auto const plan = options.plan();
  if (plan.load_factor > 0) {
    return ms::text("queries arrive at random, at ", plan.load_factor, " times the peak");
  }
  if (plan.mode == LoadMode::open) {
    return ms::text(cli::grouped(std::llround(plan.rate)), " queries/s arrive at random");
  }
  auto const each = plan.in_flight == 1 ? "" : ms::text(" with ", plan.in_flight, " queries each");
  return ms::text(plan.clients, plan.clients == 1 ? " client" : " clients", each);
}

void run(cli::Arguments const& arguments) {
  auto const options = parse_options(arguments);
  load::require_runtime(options);
  if (!options.quiet) {
    std::cerr << ms::text(
        options.model.empty() ? ms::text("random weights, seed ", options.seed) : options.model,
        "; ",
        options.batch,
        " rows a query; ",
        load_text(options),
        "; ",
        load::placement_text(options),
        "\n");
  }
  auto const report = serve(options);
  options.sweep ? conclude_sweep(options, report) : load::conclude(options, report);
}

}  // namespace
}  // namespace serve_wdl

int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, serve_wdl::run);
}
