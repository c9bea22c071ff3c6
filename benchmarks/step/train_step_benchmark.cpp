// SPDX-License-Identifier: Apache-2.0
#include "cli/stream_options.hpp"
#include "datasets/counter_random.hpp"
#include "step_training.hpp"
#include "train_options.hpp"
#include "wide_deep.hpp"

#include <msstream/memory/device.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

/// Benchmarks of a whole training step of the train_wdl model, on batches shaped like the census
/// data.
namespace benchmarks {
namespace {

using Census = axes::Census;

constexpr std::uint64_t kSeed = 1;

std::int64_t rows_for(std::int64_t distinct_keys) {
  return std::max<std::int64_t>(1024, 32 * distinct_keys);
}

train_wdl::WideDeepShape census_shape() {
  train_wdl::WideDeepShape shape{.fields = {},
                                 .table_rows = {},
                                 .continuous = Census::kContinuous,
                                 .embedding_dim = Census::kEmbeddingDim,
                                 .layers = {Census::kLayers.begin(), Census::kLayers.end()},
                                 .seed = kSeed};
  for (std::int64_t const distinct : Census::kDistinctKeys) {
    shape.fields.push_back(fmt::format("field{}", shape.fields.size()));
    shape.table_rows.push_back(rows_for(distinct));
  }
  return shape;
}

/// Returns a random batch: uniform keys within the range of each field, normal values, and labels
/// of which a sixteenth are 1.
template <ms::Runtime R>
train_wdl::DeviceBatch<R> random_batch(ms::Device<R> const& device) {
  using ms::datasets::random_bits;
  std::uint64_t draw = 0;
  auto const next = [&] { return random_bits(kSeed, 0, draw++); };
  std::vector<std::int64_t> keys;
  for (std::int64_t const distinct : Census::kDistinctKeys) {
    for (std::int64_t row = 0; row < Census::kBatch; ++row) {
      keys.push_back(static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(distinct)));
    }
  }
  std::vector<float> continuous(static_cast<std::size_t>(Census::kBatch * Census::kContinuous));
  for (auto& value : continuous) {
    auto const bits = next();
    value = static_cast<float>(ms::datasets::normal_of(bits, next()));
  }
  std::vector<float> labels(static_cast<std::size_t>(Census::kBatch));
  for (auto& label : labels) {
    label = next() % 16 == 0 ? 1.0F : 0.0F;
  }
  return {
      ms::to_device(
          device, keys, {static_cast<std::int64_t>(Census::kDistinctKeys.size()), Census::kBatch}),
      ms::to_device(device, continuous, {Census::kBatch, Census::kContinuous}),
      ms::to_device(device, labels, {Census::kBatch, 1})};
}

template <ms::Runtime R>
void add_all(int steps) {
  auto const add_one = [steps](StepSetting const& setting) {
    auto const name = fmt::format("train_step/{}/launch_threads:{}{}/groups:{}",
                                  R::name,
                                  ms::cli::name_of(setting.launch_threads),
                                  setting.merge_streams ? "/merged" : "",
                                  setting.groups);
    add(name, axes::kRunsPerRepetition, [=](benchmark::State& state) {
      auto const training = make_training<R>(
          state,
          name,
          setting,
          Groups::own,
          {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 1e-3F},
          [](ms::Device<R> const& device) {
            return std::pair(train_wdl::WideDeep<R>(device, census_shape()), random_batch(device));
          });
      time_steps(state, *training, steps);
    });
  };
  using enum ms::LaunchThreads;
  for (auto const launch_threads : {none, shared, per_group}) {
    for (int const groups : axes::kGroups) {
      add_one({.groups = groups, .merge_streams = false, .launch_threads = launch_threads});
    }
  }
  for (int const groups : axes::kGroups) {
    add_one({.groups = groups});
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(axes::kHostSteps);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>(axes::kCudaSteps);
#endif
}

}  // namespace benchmarks
