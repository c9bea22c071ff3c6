// SPDX-License-Identifier: Apache-2.0
#include "check_summary.hpp"
#include "cli/outputs.hpp"
#include "cli/report.hpp"
#include "train_options.hpp"
#include "training_data.hpp"
#include "training_run.hpp"

#include <msstream/msstream.hpp>

#include <iostream>

namespace train_wdl {
namespace {

nlohmann::ordered_json train(TrainOptions const& options, TrainingData const& data) {
#if MSSTREAM_CUDA
  if (options.runtime == RuntimeChoice::cuda) {
    return options.check ? train_checked_on_cuda(options, data) : train_on_cuda(options, data);
  }
#endif
  return options.check ? train_checked_on_host(options, data) : train_on_host(options, data);
}

void run(ms::cli::Arguments const& arguments) {
  TrainOptions const options = parse_options(arguments);
  ms::cli::require_runtime(options);
  TrainingData const data = load_training_data(options);
  if (!options.quiet) {
    std::cerr << ms::text(data.origin,
                          ": ",
                          data.split.training.size(),
                          " rows to train, ",
                          data.split.held_out.size(),
                          " to test; ",
                          data.dataset.schema().categorical.size(),
                          " branches on ",
                          options.stream_groups,
                          " stream groups; ",
                          name_of(options.runtime),
                          " runtime",
                          options.runtime == RuntimeChoice::host ? " (no GPU is used)" : "",
                          "\n");
  }
  auto const report = train(options, data);
  if (!options.report.empty()) {
    ms::cli::attempt_output("--report", [&] { ms::cli::write_report(options.report, report); });
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
