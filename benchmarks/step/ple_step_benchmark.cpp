// SPDX-License-Identifier: Apache-2.0
#include "ple_branches.hpp"
#include "ple_grouped.hpp"
#include "suite.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

/// A whole training step of train_ple's model, in its two forms, eager and captured.
namespace benchmarks {
namespace {

using Ple = axes::Ple;
using train_ple::DeviceBatch;
using train_ple::PleShape;
namespace ms = train_ple::ms;

constexpr std::uint64_t kSeed = 1;

PleShape ple_shape(std::int64_t divisor) {
  return {.table_rows = std::vector<std::int64_t>(static_cast<std::size_t>(Ple::kFields),
                                                  Ple::kTableRows / divisor),
          .continuous = Ple::kContinuous,
          .seed = kSeed};
}

/// Keys uniform over 40 bits, values and labels uniform.
template <ms::Runtime R>
DeviceBatch<R> random_batch(ms::Device<R> const& device, std::int64_t rows) {
  using ms::support::random_bits;
  std::uint64_t draw = 0;
  auto const next = [&] { return random_bits(kSeed, 0, draw++); };
  std::vector<std::int64_t> keys(static_cast<std::size_t>(Ple::kFields * rows * Ple::kHotness));
  for (auto& key : keys) {
    key = static_cast<std::int64_t>(next() >> 24U);
  }
  std::vector<float> continuous(static_cast<std::size_t>(rows * Ple::kContinuous));
  for (auto& value : continuous) {
    value = static_cast<float>(ms::support::uniform_of(next()));
  }
  std::vector<float> labels(static_cast<std::size_t>(Ple::kTasks * rows));
  for (auto& label : labels) {
    label = static_cast<float>(next() % 2);
  }
  return {ms::to_device(device, keys, {Ple::kFields, rows, Ple::kHotness}),
          ms::to_device(device, continuous, {rows, Ple::kContinuous}),
          ms::to_device(device, labels, {Ple::kTasks, rows, 1})};
}

struct Setting {
  std::int64_t batch;
  int groups;
  ms::LaunchThreads launch_threads;
  bool captured;
  ms::MatmulPrecision precision;
};

template <ms::Runtime R, class Model>
class Training {
 public:
  Training(Setting const& setting, PleShape const& shape)
      : device_(ms::DeviceOptions<R>{.matmul_precision = setting.precision}),
        pool_(device_,
              {.groups = setting.groups,
               .merge_streams = true,
               .launch_threads = setting.launch_threads,
               .launch_thread_count = 0}),
        trunk_(pool_[0]),
        tape_(device_),
        model_(device_, shape),
        optimizer_(device_, {.kind = ms::ops::OptimizerKind::sgd, .learning_rate = 0.01F}),
        batch_(random_batch(device_, setting.batch)) {
    model_.visit_parameters(
        [&](auto const& name, auto const& weight) { optimizer_.add(name, weight); },
        [&](auto const& name, auto const& table) { optimizer_.add_table(name, table); });
    train();
    train();
    synchronize();
    if (setting.captured) {
      captured_.emplace(device_, [&] { train(); });
    }
  }

  void step() {
    if (captured_) {
      captured_->replay();
    } else {
      train();
    }
  }
  void synchronize() { pool_.synchronize(); }
  [[nodiscard]] ms::Device<R> const& device() const noexcept { return device_; }

 private:
  void train() {
    tape_.backward(model_.loss(tape_, pool_, batch_));
    optimizer_.step(tape_);
    tape_.clear();
  }

  ms::Device<R> device_;
  ms::StreamPool<R> pool_;
  ms::StreamScope<R> trunk_;
  ms::GradientTape<R> tape_;
  Model model_;
  ms::Optimizer<R> optimizer_;
  DeviceBatch<R> batch_;
  std::optional<ms::CapturedStep<R>> captured_;
};

/// One iteration trains `steps` steps back to back and waits for the device once, after the last.
template <ms::Runtime R, class Model>
void run(benchmark::State& state, Setting const& setting, int steps, std::int64_t divisor) {
  using Clock = std::chrono::steady_clock;
  auto const shape = ple_shape(divisor);
  Training<R, Model> training(setting, shape);
  auto const operations_before = training.device().operation_count();
  auto const waits_before = training.device().wait_counts();
  training.step();
  auto const operations = training.device().operation_count() - operations_before;
  auto const waits = training.device().wait_counts();
  auto const train = [&] {
    for (int i = 0; i < steps; ++i) {
      training.step();
    }
  };
  train();
  training.synchronize();
  for ([[maybe_unused]] auto _ : state) {
    auto const begin = Clock::now();
    train();
    training.synchronize();
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count() / steps);
  }
  auto const memory = training.device().memory_statistics();
  state.counters["operations"] = static_cast<double>(operations);
  state.counters["waits_issued"] = static_cast<double>(waits.issued - waits_before.issued);
  state.counters["waits_elided"] = static_cast<double>(waits.elided - waits_before.elided);
  state.counters["reserved_mib"] = static_cast<double>(memory.peak_reserved_bytes) / (1U << 20U);
}

std::string_view name_of(Setting const& setting) {
  if (setting.captured) {
    return "captured";
  }
  constexpr std::string_view names[] = {"eager", "eager_shared", "eager_private"};
  return names[static_cast<int>(setting.launch_threads)];
}

template <ms::Runtime R>
void add_one(Setting const& setting, int steps, std::int64_t divisor) {
  auto const name_for = [&](char const* form) {
    return ms::text("ple_step/",
                    R::name,
                    "/batch:",
                    setting.batch,
                    "/",
                    form,
                    "/",
                    name_of(setting),
                    setting.precision == ms::MatmulPrecision::tf32 ? "/tf32" : "",
                    "/groups:",
                    setting.groups);
  };
  add(name_for("branches"), axes::kRunsPerRepetition, [=](benchmark::State& state) {
    run<R, train_ple::PleBranches<R>>(state, setting, steps, divisor);
  });
  add(name_for("grouped"), axes::kRunsPerRepetition, [=](benchmark::State& state) {
    run<R, train_ple::PleGrouped<R>>(state, setting, steps, divisor);
  });
}

}  // namespace

void add_host_benchmarks() {
  using enum ms::LaunchThreads;
  for (int const groups : {1, 4}) {
    for (bool const captured : {false, true}) {
      add_one<ms::Host>({Ple::kBatches[0] / axes::kHostPleDivisor,
                         groups,
                         none,
                         captured,
                         ms::MatmulPrecision::float32},
                        axes::kHostSteps,
                        axes::kHostPleDivisor);
    }
  }
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  using enum ms::LaunchThreads;
  using enum ms::MatmulPrecision;
  for (auto const batch : Ple::kBatches) {
    for (auto const precision : {float32, tf32}) {
      for (int const groups : Ple::kGroups) {
        add_one<ms::Cuda>({batch, groups, none, true, precision}, axes::kCudaSteps, 1);
      }
    }
  }
  for (int const groups : Ple::kGroups) {
    for (auto const threads : {none, per_group}) {
      add_one<ms::Cuda>({Ple::kBatches[0], groups, threads, false, tf32}, axes::kCudaSteps, 1);
    }
  }
#endif
}

}  // namespace benchmarks
