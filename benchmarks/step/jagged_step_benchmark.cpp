// SPDX-License-Identifier: Apache-2.0
#include "jagged_training.hpp"
#include "suite.hpp"

#include <fmt/core.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

/// Benchmarks of steps on bags of varying length, replayed by one graph per capacity, compared with
/// the same steps run eagerly.
namespace benchmarks {
namespace {

/// Measures both ways to train: each iteration replays `steps` training steps back to back and
/// waits for the device once, after the last; then it trains `steps` steps eagerly. The losses of
/// both are compared, including those of the warm-up steps.
template <ms::Runtime R>
void run(benchmark::State& state,
         JaggedSetting const& setting,
         JaggedShape const& shape,
         int steps) {
  using Clock = std::chrono::steady_clock;
  JaggedTraining<R> replayed(setting, shape);
  JaggedTraining<R> eager(setting, shape);
  std::int64_t mismatches = 0;
  double our_seconds = 0;
  double eager_seconds = 0;
  auto const seconds_a_step = [&](JaggedTraining<R>& training, auto const& step) {
    auto const begin = Clock::now();
    for (int i = 0; i < steps; ++i) {
      step(training, i);
    }
    training.synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count() / steps;
  };
  ms::Tensor<float, R> const our_losses(replayed.device(), {steps});
  ms::Tensor<float, R> const eager_losses(eager.device(), {steps});
  auto const both = [&] {
    our_seconds += seconds_a_step(
        replayed, [&](auto& training, int i) { training.keep(training.replay(), our_losses, i); });
    eager_seconds += seconds_a_step(
        eager, [&](auto& training, int i) { training.keep(training.eager(), eager_losses, i); });
    mismatches += different(ms::to_host(our_losses), ms::to_host(eager_losses));
  };
  while (!replayed.warm()) {
    both();
  }
  both();
  auto const captures = replayed.counts().captures;
  our_seconds = eager_seconds = 0;
  for ([[maybe_unused]] auto _ : state) {
    auto const before = our_seconds;
    both();
    state.SetIterationTime(our_seconds - before);
  }
  auto const& counts = replayed.counts();
  auto const iterations = static_cast<double>(state.iterations());
  auto const memory = replayed.device().memory_statistics();
  state.counters["eager_ms"] = eager_seconds * 1e3 / iterations;
  state.counters["speed_to_eager"] = eager_seconds / our_seconds;
  state.counters["captures"] = static_cast<double>(counts.captures);
  state.counters["replays"] = static_cast<double>(counts.replays);
  state.counters["mismatches"] = static_cast<double>(mismatches);
  state.counters["ids_of_capacity"] = replayed.mean_of_capacity();
  state.counters["reserved_mib"] = static_cast<double>(memory.peak_reserved_bytes) / (1U << 20U);
  if (mismatches != 0 || counts.captures != captures || captures != setting.hotnesses.size()) {
    state.SkipWithError("losses that differ from the eager ones, or captured again");
  }
}

template <ms::Runtime R>
void add_all(JaggedShape const& shape, int steps) {
  using enum ms::ops::OptimizerKind;
  constexpr auto kMost = axes::Jagged::kMostHotness;
  for (auto const kind : {sgd, adam}) {
    for (JaggedSetting const& setting :
         {JaggedSetting{kind, {kMost}}, JaggedSetting{kind, {kMost / 2, kMost}}}) {
      add(fmt::format("jagged_step/{}/{}", R::name, setting.name()),
          axes::kRunsPerRepetition,
          [=](benchmark::State& state) { run<R>(state, setting, shape, steps); });
    }
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(jagged_shape(axes::kHostJaggedDivisor), axes::kHostSteps);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>(jagged_shape(1), axes::kCudaSteps);
#endif
}

}  // namespace benchmarks
