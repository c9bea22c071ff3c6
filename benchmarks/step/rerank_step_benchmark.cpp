// SPDX-License-Identifier: Apache-2.0
#include "rerank_model.hpp"
#include "step_training.hpp"

#include <msstream/memory/device.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

/// Benchmarks of a whole training step of the train_rerank model, eager and captured.
namespace benchmarks {
namespace {

using Rerank = axes::Rerank;
using train_rerank::DeviceBatch;
using train_rerank::RerankShape;

constexpr RerankShape kShape{.columns = Rerank::kColumns,
                             .user_groups = Rerank::kUserGroups,
                             .item_groups = Rerank::kItemGroups,
                             .width = Rerank::kWidth,
                             .tower_hidden = Rerank::kTowerHidden,
                             .targets = Rerank::kTargets};

template <ms::Runtime R>
DeviceBatch<R> generated_batch(ms::Device<R> const& device, std::int64_t queries) {
  auto const lists = ms::datasets::generate_rank_lists(
      {.queries = queries, .longest = Rerank::kItems, .columns = Rerank::kColumns});
  std::vector<std::int64_t> all(static_cast<std::size_t>(queries));
  std::iota(all.begin(), all.end(), 0);
  return {device, train_rerank::gather(lists, all, Rerank::kItems, kShape), kShape};
}

template <ms::Runtime R>
void add_one(StepSetting const& setting,
             std::int64_t queries,
             int steps,
             Groups groups = Groups::own) {
  using Model = train_rerank::RerankModel<R>;
  auto const name =
      fmt::format("rerank_step/{}/queries:{}/{}", R::name, queries, name_of(setting, groups));
  add(name, axes::kRunsPerRepetition, [=](benchmark::State& state) {
    auto const training = make_training<R>(
        state,
        name,
        setting,
        groups,
        {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 1e-3F},
        [&](ms::Device<R> const& device) {
          return std::pair(Model(device, kShape), generated_batch(device, queries));
        });
    time_steps(state, *training, steps);
  });
}

}  // namespace

void add_host_benchmarks() {
  for (int const groups : {1, 4}) {
    for (bool const captured : {false, true}) {
      add_one<ms::Host>({.groups = groups, .captured = captured},
                        Rerank::kQueries / axes::kHostPleDivisor,
                        axes::kHostSteps);
    }
  }
  for (bool const captured : {false, true}) {
    add_one<ms::Host>({.groups = 4, .captured = captured, .reduce_waits = false},
                      Rerank::kQueries / axes::kHostPleDivisor,
                      axes::kHostSteps);
  }
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  using enum ms::MatmulPrecision;
  for (bool const captured : {false, true}) {
    add_one<ms::Cuda>({.groups = Rerank::kGroups.back(),
                       .captured = captured,
                       .precision = tf32,
                       .reduce_waits = false},
                      Rerank::kQueries,
                      axes::kCudaSteps);
  }
  for (int const groups : Rerank::kGroups) {
    for (auto const precision : {float32, tf32}) {
      add_one<ms::Cuda>({.groups = groups, .captured = true, .precision = precision},
                        Rerank::kQueries,
                        axes::kCudaSteps);
    }
    for (auto const threads : {ms::LaunchThreads::none, ms::LaunchThreads::per_group}) {
      add_one<ms::Cuda>({.groups = groups, .launch_threads = threads, .precision = tf32},
                        Rerank::kQueries,
                        axes::kCudaSteps);
    }
    if (groups > 1) {
      add_one<ms::Cuda>({.groups = groups, .captured = true, .precision = tf32},
                        Rerank::kQueries,
                        axes::kCudaSteps,
                        Groups::chosen);
    }
  }
#endif
}

}  // namespace benchmarks
