// SPDX-License-Identifier: Apache-2.0
#include "embedding_training.hpp"
#include "suite.hpp"

#include <fmt/core.h>

#include <chrono>
#include <cstdint>

/// Benchmarks of steps of an embedding-heavy model, sequential and in two stages, compared with a
/// captured sequential step.
namespace benchmarks {
namespace {

/// Measures training steps: each iteration trains `steps` steps back to back and waits for the
/// device once, after the last; then it trains `steps` steps of the baseline, which is sequential,
/// on one group, and captured.
template <ms::Runtime R>
void run(benchmark::State& state,
         PipelineSetting const& setting,
         EmbeddingShape const& shape,
         int steps) {
  using Clock = std::chrono::steady_clock;
  EmbeddingTraining<R> ours(setting, shape);
  EmbeddingTraining<R> baseline({.captured = true}, shape);
  auto const seconds_a_step = [&](EmbeddingTraining<R>& training) {
    auto const begin = Clock::now();
    for (int i = 0; i < steps; ++i) {
      training.step();
    }
    training.synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count() / steps;
  };
  auto const operations_before = ours.device().operation_count();
  auto const waits_before = ours.device().wait_counts();
  ours.step();
  auto const operations = ours.device().operation_count() - operations_before;
  auto const waits = ours.device().wait_counts();
  seconds_a_step(ours);
  seconds_a_step(baseline);
  double our_seconds = 0;
  double baseline_seconds = 0;
  for ([[maybe_unused]] auto _ : state) {
    auto const seconds = seconds_a_step(ours);
    our_seconds += seconds;
    baseline_seconds += seconds_a_step(baseline);
    state.SetIterationTime(seconds);
  }
  auto const memory = ours.device().memory_statistics();
  state.counters["speed_to_in_turn_captured"] = baseline_seconds / our_seconds;
  state.counters["operations"] = static_cast<double>(operations);
  state.counters["waits_issued"] = static_cast<double>(waits.issued - waits_before.issued);
  state.counters["reserved_mib"] = static_cast<double>(memory.peak_reserved_bytes) / (1U << 20U);
}

template <ms::Runtime R>
void add_all(EmbeddingShape const& shape, int steps) {
  using enum TrainedIn;
  for (bool const captured : {false, true}) {
    for (PipelineSetting const& setting :
         {PipelineSetting{.groups = 1, .trained_in = turn, .captured = captured},
          PipelineSetting{.groups = 2, .trained_in = turn, .captured = captured},
          PipelineSetting{.groups = 2, .trained_in = two_stages, .captured = captured},
          PipelineSetting{.groups = 2, .trained_in = stale_stages, .captured = captured}}) {
      add(fmt::format("two_stage/{}/{}", R::name, setting.name()),
          axes::kRunsPerRepetition,
          [=](benchmark::State& state) { run<R>(state, setting, shape, steps); });
    }
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(embedding_shape(axes::kHostPipelineDivisor), axes::kHostSteps);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>(embedding_shape(1), axes::kCudaSteps);
#endif
}

}  // namespace benchmarks
