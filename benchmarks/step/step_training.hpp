// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axes.hpp"
#include "suite.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/record_step.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// What the suites of whole training steps share: one model on one batch, issued in several ways.
namespace benchmarks {

namespace ms = msstream;

/// How a step is issued.
struct StepSetting {
  int groups = 1;
  ms::LaunchThreads launch_threads = ms::LaunchThreads::none;
  bool captured = false;
  ms::MatmulPrecision precision = ms::MatmulPrecision::float32;
  bool reduce_waits = true;
  bool assigned = false;  ///< groups by auto_assignment(), from a step that was traced on one

  [[nodiscard]] std::string name() const {
    constexpr std::string_view eager[] = {"eager", "eager_shared", "eager_private"};
    return ms::text(captured ? "captured" : eager[static_cast<int>(launch_threads)],
                    precision == ms::MatmulPrecision::tf32 ? "/tf32" : "",
                    reduce_waits ? "" : "/all_waits",
                    assigned ? "/assigned" : "",
                    "/groups:",
                    groups);
  }
};

/// Trains a model that gives `loss(tape, pool, batch)` and `visit_parameters()`.
template <ms::Runtime R, class Model, class Batch>
class StepTraining {
 public:
  /// `build(device)` gives the model and a batch.
  template <class Build>
  StepTraining(StepSetting const& setting,
               ms::ops::OptimizerRule const& rule,
               Build const& build,
               std::optional<ms::StreamAssignment> assignment = std::nullopt)
      : device_(ms::DeviceOptions<R>{.reduce_waits = setting.reduce_waits,
                                     .matmul_precision = setting.precision}),
        pool_(device_,
              {.groups = setting.groups,
               .merge_streams = true,
               .launch_threads = setting.launch_threads,
               .launch_thread_count = 0,
               .assignment = std::move(assignment)}),
        trunk_(pool_[0]),
        tape_(device_),
        built_(build(device_)),
        optimizer_(device_, rule) {
    built_.first.visit_parameters(
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
  [[nodiscard]] ms::StepTrace record() {
    return ms::record_step(device_, [this] { train(); });
  }
  [[nodiscard]] ms::Device<R> const& device() const noexcept { return device_; }

 private:
  void train() {
    tape_.backward(built_.first.loss(tape_, pool_, built_.second));
    optimizer_.step(tape_);
    tape_.clear();
  }

  ms::Device<R> device_;
  ms::StreamPool<R> pool_;
  ms::StreamScope<R> trunk_;
  ms::GradientTape<R> tape_;
  std::pair<Model, Batch> built_;
  ms::Optimizer<R> optimizer_;
  std::optional<ms::CapturedStep<R>> captured_;
};

/// What `setting` asks for; where groups are assigned, a step is traced first.
template <class Training, class Build>
std::unique_ptr<Training> make_training(benchmark::State& state,
                                        StepSetting const& setting,
                                        ms::ops::OptimizerRule const& rule,
                                        Build const& build) {
  if (!setting.assigned) {
    return std::make_unique<Training>(setting, rule, build);
  }
  auto on_one = setting;
  on_one.groups = 1;
  on_one.captured = false;
  on_one.launch_threads = ms::LaunchThreads::none;
  auto const trace = Training(on_one, rule, build).record();
  auto const choice = ms::auto_assignment(
      trace,
      setting.groups,
      {.model = {.launch = setting.captured ? ms::StepLaunch::graph : ms::StepLaunch::eager,
                 .merge_streams = true}});
  state.counters["predicted_ms"] = choice.predicted_ns * 1e-6;
  state.counters["predicted_on_one_ms"] = choice.one_group_ns * 1e-6;
  return std::make_unique<Training>(
      setting,
      rule,
      build,
      ms::StreamAssignment::parse(choice.text, "auto_assignment", setting.groups));
}

/// One iteration trains `steps` steps back to back and waits for the device once, after the last.
template <class Training>
void time_steps(benchmark::State& state, Training& training, int steps) {
  using Clock = std::chrono::steady_clock;
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

}  // namespace benchmarks
