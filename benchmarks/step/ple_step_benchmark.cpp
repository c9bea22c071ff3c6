// SPDX-License-Identifier: Apache-2.0
#include "ple_branches.hpp"
#include "ple_grouped.hpp"
#include "step_training.hpp"

#include <msstream/memory/device.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

/// Benchmarks of a whole training step of the train_ple model, in its two forms, eager and
/// captured.
namespace benchmarks {
namespace {

using Ple = axes::Ple;
using train_ple::DeviceBatch;
using train_ple::PleShape;

constexpr std::uint64_t kSeed = 1;

PleShape ple_shape(std::int64_t divisor) {
  return {.table_rows = std::vector<std::int64_t>(static_cast<std::size_t>(Ple::kFields),
                                                  Ple::kTableRows / divisor),
          .continuous = Ple::kContinuous,
          .seed = kSeed};
}

/// Returns a random batch: keys uniform over 40 bits, and uniform values and labels.
template <ms::Runtime R>
DeviceBatch<R> random_batch(ms::Device<R> const& device, std::int64_t rows) {
  using ms::datasets::random_bits;
  std::uint64_t draw = 0;
  auto const next = [&] { return random_bits(kSeed, 0, draw++); };
  std::vector<std::int64_t> keys(static_cast<std::size_t>(Ple::kFields * rows * Ple::kHotness));
  for (auto& key : keys) {
    key = static_cast<std::int64_t>(next() >> 24U);
  }
  std::vector<float> continuous(static_cast<std::size_t>(rows * Ple::kContinuous));
  for (auto& value : continuous) {
    value = static_cast<float>(ms::datasets::uniform_of(next()));
  }
  std::vector<float> labels(static_cast<std::size_t>(Ple::kTasks * rows));
  for (auto& label : labels) {
    label = static_cast<float>(next() % 2);
  }
  return {ms::to_device(device, keys, {Ple::kFields, rows, Ple::kHotness}),
          ms::to_device(device, continuous, {rows, Ple::kContinuous}),
          ms::to_device(device, labels, {Ple::kTasks, rows, 1})};
}

template <ms::Runtime R, template <class> class Model>
void add_form(char const* form,
              StepSetting const& setting,
              std::int64_t batch,
              int steps,
              std::int64_t divisor,
              Groups groups) {
  auto const name =
      fmt::format("ple_step/{}/batch:{}/{}/{}", R::name, batch, form, name_of(setting, groups));
  add(name, axes::kRunsPerRepetition, [=](benchmark::State& state) {
    auto const training = make_training<R>(
        state,
        name,
        setting,
        groups,
        {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.01F},
        [&](ms::Device<R> const& device) {
          return std::pair(Model<R>(device, ple_shape(divisor)), random_batch(device, batch));
        });
    time_steps(state, *training, steps);
  });
}
// Aliases without a concept: a template with a concept on its parameter does not match `template
// <class> class`.
template <class R>
using Branches = train_ple::PleBranches<R>;
template <class R>
using Grouped = train_ple::PleGrouped<R>;

template <ms::Runtime R>
void add_both(StepSetting const& setting,
              std::int64_t batch,
              int steps,
              std::int64_t divisor,
              Groups groups = Groups::own) {
  add_form<R, Branches>("branches", setting, batch, steps, divisor, groups);
  add_form<R, Grouped>("grouped", setting, batch, steps, divisor, groups);
}

}  // namespace

void add_host_benchmarks() {
  for (int const groups : {1, 4}) {
    for (bool const captured : {false, true}) {
      add_both<ms::Host>({.groups = groups, .captured = captured},
                         Ple::kBatches[0] / axes::kHostPleDivisor,
                         axes::kHostSteps,
                         axes::kHostPleDivisor);
    }
  }
  for (bool const captured : {false, true}) {
    add_both<ms::Host>({.groups = 4, .captured = captured, .reduce_waits = false},
                       Ple::kBatches[0] / axes::kHostPleDivisor,
                       axes::kHostSteps,
                       axes::kHostPleDivisor);
  }
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  using enum ms::MatmulPrecision;
  for (auto const batch : Ple::kBatches) {
    for (auto const precision : {float32, tf32}) {
      for (int const groups : Ple::kGroups) {
        add_both<ms::Cuda>({.groups = groups, .captured = true, .precision = precision},
                           batch,
                           axes::kCudaSteps,
                           1);
      }
    }
  }
  add_both<ms::Cuda>({.groups = Ple::kGroups.back(), .captured = true, .precision = tf32},
                     Ple::kBatches[0],
                     axes::kCudaSteps,
                     1,
                     Groups::chosen);
  for (bool const captured : {false, true}) {
    add_both<ms::Cuda>({.groups = Ple::kGroups.back(),
                        .captured = captured,
                        .precision = tf32,
                        .reduce_waits = false},
                       Ple::kBatches[0],
                       axes::kCudaSteps,
                       1);
  }
  for (int const groups : Ple::kGroups) {
    for (bool const captured : {false, true}) {
      add_form<ms::Cuda, Branches>(
          "branches",
          {.groups = groups, .captured = captured, .precision = tf32, .tables_together = true},
          Ple::kBatches[0],
          axes::kCudaSteps,
          1,
          Groups::own);
    }
    for (auto const threads : {ms::LaunchThreads::none, ms::LaunchThreads::per_group}) {
      add_both<ms::Cuda>({.groups = groups, .launch_threads = threads, .precision = tf32},
                         Ple::kBatches[0],
                         axes::kCudaSteps,
                         1);
    }
  }
#endif
}

}  // namespace benchmarks
