// SPDX-License-Identifier: Apache-2.0
#include "cli/precision_option.hpp"
#include "cli/report.hpp"
#include "ple_options.hpp"
#include "ple_tables.hpp"
#include "training/step_report.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <iostream>
#include <optional>

namespace train_ple {
namespace {

namespace cli = ms::cli;
namespace training = ms::training;

nlohmann::ordered_json train(PleOptions const& options,
                             training::TrainingData& data,
                             ms::comm::World const& world,
                             std::optional<ms::training::TableParts> const& parts) {
#if MSSTREAM_CUDA
  if (options.runtime == cli::RuntimeChoice::cuda) {
    return train_on_cuda(options, data, world, parts);
  }
#endif
  return train_on_host(options, data, world, parts);
}

void run(cli::Arguments const& arguments) {
  auto const options = parse_options(arguments);
  cli::require_runtime(options);
  training::require_devices(options, options);
  training::require_equal_options(options, describe(options));
  auto data = load_training_data(options);
  if (!options.quiet) {
    std::cerr << fmt::format("{}: {} rows to train, {} to test; {} fields, {} tasks; {}; {}{}\n",
                             data.origin,
                             data.training_rows,
                             data.held_out.rows(),
                             data.columns.fields(),
                             data.columns.tasks(),
                             cli::name_of(options.shape.precision),
                             training::placement_text(options),
                             training::ranks_text(options));
  }
  auto const parts = training::table_parts(
      table_specs(shape_of(options, data), data.columns.hotness), options, options, options.quiet);
  auto const report = training::on_ranks(options, [&](ms::comm::World const& world) {
    return train(options.of_rank(world.rank()), data, world, parts);
  });
  training::conclude(options, report);
}

}  // namespace
}  // namespace train_ple

int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, train_ple::run);
}
