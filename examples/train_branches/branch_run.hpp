// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "branch_model.hpp"
#include "branch_options.hpp"
#include "training/step_run.hpp"

#include <msstream/memory/device.hpp>

#include <utility>

namespace train_branches {

template <ms::Runtime R>
nlohmann::ordered_json train_branches_on(BranchOptions const& options) {
  BranchShape const shape{.width = options.width,
                          .layers = options.layers,
                          .target = options.target,
                          .seed = options.seed};
  auto const build = [&](ms::Device<R> const& device) {
    BranchModel<R> model(device, shape);
    auto batch = model.random_batch(device);
    return std::pair(std::move(model), std::move(batch));
  };
  ms::training::StepRun<R, decltype(build)> run(options, options.steps, build);
  run.train(options.steps, options.width, "training", [](auto const&) {});
  auto report = run.report();
  report["options"].update(
      {{"width", options.width}, {"layers", options.layers}, {"target", options.target}});
  return report;
}

}  // namespace train_branches
