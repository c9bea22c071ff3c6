// SPDX-License-Identifier: Apache-2.0
#include "cli/report.hpp"
#include "rerank_options.hpp"
#include "training/step_report.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <iostream>

namespace train_rerank {
namespace {

namespace cli = ms::cli;
namespace training = ms::training;

nlohmann::ordered_json train(RerankOptions const& options,
                             RerankData const& data,
                             ms::comm::World const& world) {
#if MSSTREAM_CUDA
  if (options.runtime == cli::RuntimeChoice::cuda) {
    return train_on_cuda(options, data, world);
  }
#endif
  return train_on_host(options, data, world);
}

void run(cli::Arguments const& arguments) {
  auto const options = parse_options(arguments);
  cli::require_runtime(options);
  training::require_devices(options, options);
  training::require_equal_options(options, describe(options));
  auto const data = load_data(options);
  if (!options.quiet) {
    std::cerr << fmt::format(
        "{}: {} lists to train, {} to test, of up to {} items; {} features; {}{}\n",
        data.origin,
        data.split.training.size(),
        data.split.held_out.size(),
        data.places,
        data.lists.columns,
        training::placement_text(options),
        training::ranks_text(options));
    if (data.cut_lists > 0) {
      std::cerr << fmt::format("{} of {} lists were longer: of them the first {} items are used\n",
                               data.cut_lists,
                               data.lists.queries(),
                               data.places);
    }
  }
  auto const report = training::on_ranks(options, [&](ms::comm::World const& world) {
    return train(options.of_rank(world.rank()), data, world);
  });
  training::conclude(options, report);
}

}  // namespace
}  // namespace train_rerank

int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, train_rerank::run);
}
