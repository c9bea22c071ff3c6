// SPDX-License-Identifier: Apache-2.0
#include "suite.hpp"
#include "train_options.hpp"
#include "wide_deep.hpp"

#include <msstream/support/counter_random.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

/// A whole training step of train_wdl's model on batches shaped as the census data.
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
    shape.fields.push_back(ms::text("field", shape.fields.size()));
    shape.table_rows.push_back(rows_for(distinct));
  }
  return shape;
}

/// Uniform keys among each field's, normal values, labels of which a sixteenth are 1.
template <ms::Runtime R>
train_wdl::DeviceBatch<R> random_batch(ms::Device<R> const& device) {
  using ms::support::random_bits;
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
    value = static_cast<float>(ms::support::normal_of(bits, next()));
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

struct Setting {
  int groups;
  ms::LaunchThreads launch_threads;
  bool merged;
};

std::string_view name_of(ms::LaunchThreads threads) {
  constexpr std::string_view names[] = {"none", "shared", "private"};
  return names[static_cast<int>(threads)];
}

template <ms::Runtime R>
class Training {
 public:
  explicit Training(Setting const& setting)
      : pool_(device_,
              {.groups = setting.groups,
               .merge_streams = setting.merged,
               .launch_threads = setting.launch_threads,
               .launch_thread_count = 0}),
        trunk_(pool_[0]),
        tape_(device_),
        model_(device_, census_shape()),
        optimizer_(device_, {.kind = ms::ops::OptimizerKind::adam, .learning_rate = 1e-3F}),
        batch_(random_batch(device_)) {
    model_.visit_parameters(
        [&](auto const& name, auto const& weight) { optimizer_.add(name, weight); },
        [&](auto const& name, auto const& table) { optimizer_.add_table(name, table); });
  }

  void step() {
    auto const logits = model_.forward(tape_, pool_, batch_);
    tape_.backward(ms::ops::mean_bce_with_logits(tape_, logits, batch_.labels));
    optimizer_.step(tape_);
    tape_.clear();
  }
  void synchronize() { pool_.synchronize(); }
  [[nodiscard]] ms::Device<R> const& device() const noexcept { return device_; }

 private:
  ms::Device<R> device_;
  ms::StreamPool<R> pool_;
  ms::StreamScope<R> trunk_;
  ms::GradientTape<R> tape_;
  train_wdl::WideDeep<R> model_;
  ms::Optimizer<R> optimizer_;
  train_wdl::DeviceBatch<R> batch_;
};

/// One iteration trains `steps` steps back to back and waits for the device once, after the last.
template <ms::Runtime R>
void run(benchmark::State& state, Setting const& setting, int steps) {
  using Clock = std::chrono::steady_clock;
  Training<R> training(setting);
  auto const train = [&] {
    for (int i = 0; i < steps; ++i) {
      training.step();
    }
  };
  train();
  training.synchronize();
  auto const operations_before = training.device().operation_count();
  training.step();
  auto const operations = training.device().operation_count() - operations_before;
  training.synchronize();
  auto const waits_before = training.device().wait_counts();
  double issuing_s = 0;
  for ([[maybe_unused]] auto _ : state) {
    auto const begin = Clock::now();
    train();
    auto const issued = Clock::now();
    training.synchronize();
    auto const end = Clock::now();
    issuing_s += std::chrono::duration<double>(issued - begin).count();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count() / steps);
  }
  auto const waits = training.device().wait_counts();
  double const trained = static_cast<double>(state.iterations()) * steps;
  state.counters["issue_ms"] = issuing_s * 1e3 / trained;
  state.counters["operations"] = static_cast<double>(operations);
  state.counters["waits_issued"] =
      static_cast<double>(waits.issued - waits_before.issued) / trained;
  state.counters["waits_elided"] =
      static_cast<double>(waits.elided - waits_before.elided) / trained;
}

template <ms::Runtime R>
void add_all(int steps) {
  auto const add_one = [steps](Setting const& setting) {
    auto const name = ms::text("train_step/",
                               R::name,
                               "/launch_threads:",
                               name_of(setting.launch_threads),
                               setting.merged ? "/merged" : "",
                               "/groups:",
                               setting.groups);
    add(name, axes::kRunsPerRepetition, [=](benchmark::State& state) {
      run<R>(state, setting, steps);
    });
  };
  using enum ms::LaunchThreads;
  for (auto const launch_threads : {none, shared, per_group}) {
    for (int const groups : axes::kGroups) {
      add_one({groups, launch_threads, false});
    }
  }
  for (int const groups : axes::kGroups) {
    add_one({groups, none, true});
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
