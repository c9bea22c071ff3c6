// SPDX-License-Identifier: Apache-2.0
#include "load/serve_report.hpp"
#include "sweep.hpp"
#include "wdl_options.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>
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
    return fmt::format("queries arrive at random, at {} times the peak", plan.load_factor);
  }
  if (plan.mode == LoadMode::open) {
    return fmt::format("{} queries/s arrive at random",
                       ms::report::grouped(std::llround(plan.rate)));
  }
  auto const each = plan.in_flight == 1 ? "" : fmt::format(" with {} queries each", plan.in_flight);
  return fmt::format("{}{}{}", plan.clients, plan.clients == 1 ? " client" : " clients", each);
}

void run(cli::Arguments const& arguments) {
  auto const options = parse_options(arguments);
  load::require_runtime(options);
  if (!options.quiet) {
    std::cerr << fmt::format("{}; {} rows a query; {}; {}\n",
                             options.model.empty()
                                 ? fmt::format("random weights, seed {}", options.seed)
                                 : options.model,
                             options.batch,
                             load_text(options),
                             load::placement_text(options));
  }
  auto const report = serve(options);
  options.sweep ? conclude_sweep(options, report) : load::conclude(options, report);
}

}  // namespace
}  // namespace serve_wdl

int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, serve_wdl::run);
}
