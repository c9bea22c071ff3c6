// SPDX-License-Identifier: Apache-2.0
#include "ple_options.hpp"

#include <msstream/support/report.hpp>
#include <msstream/support/step_report.hpp>

#include <iostream>

namespace train_ple {
namespace {

namespace support = ms::support;

nlohmann::ordered_json train(PleOptions const& options, support::TrainingData const& data) {
#if MSSTREAM_CUDA
  if (options.runtime == support::RuntimeChoice::cuda) {
    return train_on_cuda(options, data);
  }
#endif
  return train_on_host(options, data);
}

void run(support::Arguments const& arguments) {
  auto const options = parse_options(arguments);
  support::require_runtime(options);
  auto const data = load_training_data(options);
  if (!options.quiet) {
    auto const& schema = data.dataset.schema();
    std::cerr << ms::text(data.origin,
                          ": ",
                          data.split.training.size(),
                          " rows to train, ",
                          data.split.held_out.size(),
                          " to test; ",
                          schema.categorical.size(),
                          " fields, ",
                          schema.labels.size(),
                          " tasks; ",
                          support::placement_text(options),
                          "\n");
  }
  support::conclude(options, train(options, data));
}

}  // namespace
}  // namespace train_ple

int main(int argc, char** argv) {
  return msstream::support::run_program(argc, argv, train_ple::run);
}
