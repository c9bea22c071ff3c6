// SPDX-License-Identifier: Apache-2.0
#include "branch_options.hpp"
#include "cli/report.hpp"
#include "training/step_report.hpp"
#include "training/step_timeline.hpp"

#include <fmt/core.h>

#include <iostream>

namespace train_branches {

namespace cli = msstream::cli;
namespace training = msstream::training;

BranchOptions parse_options(cli::Arguments const& arguments) {
  BranchOptions chosen;
  training::read_library_variables(chosen);
  cli::Options options(
      "Trains the branch-training example of NVIDIA's multi-stream TensorFlow: four branches of\n"
      "elementwise layers on square matrices, each on a stream group, on one batch of normal\n"
      "values. The losses are the same bits for any number of groups and any way of launching.",
      {{"train_branches", "20 steps, issued by this thread on 4 groups"},
       {"train_branches --stream-groups 1 --no-reduce-waits --report one.json",
        "the same on one group, to compare with"},
       {"train_branches --capture --steps 200", "the second step is captured and replayed"},
       {"train_branches --capture --assignment auto --save-assignment groups.txt",
        "groups chosen by a trace of a step; the file can be changed and given to --assignment"},
       {"train_branches --width 64 --waits --step-trace step.svg",
        "how many waits a step needs, and a picture of it"}});
  options.group("Model");
  options.add<std::int64_t>("--width", chosen.width, "rows and columns of each matrix", {1, 16384});
  options.add<int>("--layers", chosen.layers, "elementwise layers a branch", {1, 1000});
  options.add<std::int64_t>(
      "--target", chosen.target, "the class to learn, below --width", {0, 16383});
  training::add_options(options, static_cast<training::StepOptions&>(chosen));
  options.parse(arguments, std::cerr);
  training::check(chosen);
  if (chosen.steps == 0) {
    throw cli::UsageError("--steps 0: generated data has no end; expected at least 1");
  }
  if (chosen.target >= chosen.width) {
    throw cli::UsageError(
        fmt::format("--target {}: expected a class from 0 to {}, below the --width of {}",
                    chosen.target,
                    chosen.width - 1,
                    chosen.width));
  }
  training::open_dashboard(
      chosen,
      {.program = "train_branches",
       .what = training::placement_text(chosen) + training::timelines_text(chosen.capture, true),
       .unit = "rows"});
  return chosen;
}

namespace {

nlohmann::ordered_json train(BranchOptions const& options) {
#if MSSTREAM_CUDA
  if (options.runtime == cli::RuntimeChoice::cuda) {
    return train_on_cuda(options);
  }
#endif
  return train_on_host(options);
}

void run(cli::Arguments const& arguments) {
  auto const options = parse_options(arguments);
  cli::require_runtime(options);
  if (!options.quiet) {
    std::cerr << fmt::format("four branches of {} layers on {} x {} matrices; {}\n",
                             options.layers,
                             options.width,
                             options.width,
                             training::placement_text(options));
  }
  training::conclude(options, train(options));
}

}  // namespace
}  // namespace train_branches

int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, train_branches::run);
}
