// SPDX-License-Identifier: Apache-2.0
#include "branch_model.hpp"
#include "step_training.hpp"

#include <msstream/memory/device.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <utility>

/// Benchmarks of a whole training step of the train_branches model, eager and captured.
namespace benchmarks {
namespace {

template <ms::Runtime R>
void add_one(StepSetting const& setting,
             std::int64_t width,
             int steps,
             Groups groups = Groups::own) {
  auto const name =
      fmt::format("branch_step/{}/width:{}/{}", R::name, width, name_of(setting, groups));
  add(name, axes::kRunsPerRepetition, [=](benchmark::State& state) {
    auto const training =
        make_training<R>(state,
                         name,
                         setting,
                         groups,
                         {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 1e-6F},
                         [&](ms::Device<R> const& device) {
                           train_branches::BranchModel<R> model(device, {.width = width});
                           auto batch = model.random_batch(device);
                           return std::pair(std::move(model), std::move(batch));
                         });
    time_steps(state, *training, steps);
  });
}

}  // namespace

void add_host_benchmarks() {
  for (int const groups : {1, 4}) {
    for (bool const captured : {false, true}) {
      add_one<ms::Host>({.groups = groups, .captured = captured},
                        axes::Branches::kWidth / axes::kHostPleDivisor,
                        axes::kHostSteps);
    }
  }
  for (bool const captured : {false, true}) {
    add_one<ms::Host>({.groups = 4, .captured = captured, .reduce_waits = false},
                      axes::Branches::kWidth / axes::kHostPleDivisor,
                      axes::kHostSteps);
  }
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  using enum ms::MatmulPrecision;
  for (int const groups : {4, 8}) {
    add_one<ms::Cuda>({.groups = groups, .captured = true, .precision = tf32},
                      axes::Branches::kWidth,
                      axes::kCudaSteps,
                      Groups::chosen);
  }
  for (bool const captured : {false, true}) {
    add_one<ms::Cuda>({.groups = 4, .captured = captured, .precision = tf32, .reduce_waits = false},
                      axes::Branches::kWidth,
                      axes::kCudaSteps);
  }
  for (int const groups : axes::Branches::kGroups) {
    for (auto const precision : {float32, tf32}) {
      add_one<ms::Cuda>({.groups = groups, .captured = true, .precision = precision},
                        axes::Branches::kWidth,
                        axes::kCudaSteps);
    }
    for (auto const threads : {ms::LaunchThreads::none, ms::LaunchThreads::per_group}) {
      add_one<ms::Cuda>({.groups = groups, .launch_threads = threads, .precision = tf32},
                        axes::Branches::kWidth,
                        axes::kCudaSteps);
    }
  }
#endif
}

}  // namespace benchmarks
