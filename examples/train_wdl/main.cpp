// SPDX-License-Identifier: Apache-2.0
#include "check_summary.hpp"
#include "cli/outputs.hpp"
#include "cli/report.hpp"
#include "table_specs.hpp"
#include "train_options.hpp"
#include "training_data.hpp"
#include "training_run.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <iostream>
#include <optional>

namespace train_wdl {
namespace {

nlohmann::ordered_json train(TrainOptions const& options,
                             TrainingData& data,
                             ms::comm::World const& world,
                             std::optional<ms::training::TableParts> const& parts) {
#if MSSTREAM_CUDA
  if (options.runtime == RuntimeChoice::cuda) {
    return options.check ? train_checked_on_cuda(options, data, world, parts)
                         : train_on_cuda(options, data, world, parts);
  }
#endif
  return options.check ? train_checked_on_host(options, data, world, parts)
                       : train_on_host(options, data, world, parts);
}

void run(ms::cli::Arguments const& arguments) {
  TrainOptions const options = parse_options(arguments);
  ms::cli::require_runtime(options);
  ms::training::require_devices(options, options);
  ms::training::require_equal_options(options, describe(options));
  TrainingData data = load_training_data(options);
  if (!options.quiet) {
    std::cerr << fmt::format(
        "{}: {} rows to train, {} to test; {} branches on {} stream groups; {} runtime{}{}\n",
        data.origin,
        data.training_rows,
        data.held_out.rows(),
        data.columns.fields(),
        options.stream_groups,
        name_of(options.runtime),
        options.runtime == RuntimeChoice::host ? " (no GPU is used)" : "",
        ms::training::ranks_text(options));
  }
  auto const parts = ms::training::table_parts(
      table_specs(shape_of(options, data)), options, options, options.quiet);
  auto const report = ms::training::on_ranks(options, [&](ms::comm::World const& world) {
    return train(options.of_rank(world.rank()), data, world, parts);
  });
  if (!options.report.empty()) {
    ms::cli::attempt_output("--report", [&] { ms::cli::write_report(options.report, report); });
  }
  if (report.contains("first_overflow") && !options.quiet) {
    ms::cli::print(ms::training::overflow_line(report["first_overflow"]));
  }
  if (report.contains("traced_step") && !options.quiet) {
    ms::cli::print(ms::training::traced_step_line(report["traced_step"]));
  }
  if (options.check) {
    if (!options.quiet) {
      ms::cli::print(summary_line(report) + "\n");
    }
    require_no_findings(report);
  }
}

}  // namespace
}  // namespace train_wdl

int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, train_wdl::run);
}
