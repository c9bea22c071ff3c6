// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axes.hpp"
#include "suite.hpp"
#include "training/choose_groups.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/step/record_step.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// Code that the suites of whole training steps share: one model on one batch, issued in several
/// ways.
namespace benchmarks {

namespace ms = msstream;
using ms::training::StepSetting;

/// The stream groups on which the training steps run.
enum class Groups : std::uint8_t {
  own,     ///< set by the model's scopes
  chosen,  ///< the fastest that choose_groups() found
};

inline std::string name_of(StepSetting const& setting, Groups groups = Groups::own) {
  constexpr std::string_view eager[] = {"eager", "eager_shared", "eager_per_group"};
  return fmt::format(
      "{}{}{}{}{}/groups:{}",
      setting.captured ? "captured" : eager[static_cast<int>(setting.launch_threads)],
      setting.precision == ms::MatmulPrecision::tf32 ? "/tf32" : "",
      setting.reduce_waits ? "" : "/all_waits",
      groups == Groups::chosen ? "/assigned" : "",
      setting.tables_together ? "/tables_together" : "",
      setting.groups);
}

/// Saves the trace of a step in the folder MSSTREAM_BENCHMARK_TRACES, if that variable is set.
inline void keep_trace(ms::StepTrace const& trace, std::string name) {
  std::replace(name.begin(), name.end(), '/', '.');
  if (auto const folder = ms::env::value_of("MSSTREAM_BENCHMARK_TRACES"); !folder.empty()) {
    trace.save(std::filesystem::path(folder) / (name + ".json"));
  }
}

/// Returns a warm training of the model and batch that `build(device)` makes, captured if the
/// setting says so. Without launch threads, also reports the predicted time of a step, computed
/// from a traced one.
template <ms::Runtime R, class Build>
auto make_training(benchmark::State& state,
                   std::string const& name,
                   StepSetting const& setting,
                   Groups groups,
                   ms::ops::OptimizerRule const& rule,
                   Build const& build) {
  std::optional<ms::StreamAssignment> assignment;
  if (groups == Groups::chosen) {
    auto const choice = ms::training::choose_groups<R>(setting, rule, build, [](int) {});
    state.counters["predicted_on_one_ms"] = choice.predicted.one_group_ns * 1e-6;
    state.counters["predicted_assigned_ms"] = choice.predicted.predicted_ns * 1e-6;
    state.counters["tried_assigned_ms"] = choice.tried.chosen_ms;
    state.counters["tried_one_group_ms"] = choice.tried.one_group_ms;
    state.counters["tried_own_ms"] = choice.tried.own_ms;
    assignment = ms::StreamAssignment::parse(choice.text, "auto_assignment", setting.groups);
  }
  if (setting.launch_threads == ms::LaunchThreads::none) {
    auto const trace = ms::training::rehearse<R>(setting, rule, build, assignment);
    auto const model = ms::training::step_model(setting);
    state.counters["predicted_ms"] = ms::predict(trace, ms::recorded_groups(trace), model) * 1e-6;
    keep_trace(trace, name);
  }
  auto training = std::make_unique<ms::training::StepTrainingOf<R, Build>>(
      setting, rule, build, std::move(assignment));
  training->step();
  training->step();
  if (setting.captured) {
    state.counters["waits_in_graph"] = static_cast<double>(training->waits_in_graph());
  }
  training->synchronize();
  return training;
}

/// Measures training steps: each iteration trains `steps` steps back to back and waits for the
/// device once, after the last.
template <class Training>
void time_steps(benchmark::State& state, Training& training, int steps) {
  using Clock = std::chrono::steady_clock;
  auto const operations_before = training.device().operation_count();
  training.step();
  auto const operations = training.device().operation_count() - operations_before;
  auto const train = [&] {
    for (int i = 0; i < steps; ++i) {
      training.step();
    }
  };
  train();
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
  auto const memory = training.device().memory_statistics();
  double const trained = static_cast<double>(state.iterations()) * steps;
  auto const each = [&](std::uint64_t before, std::uint64_t after) {
    return static_cast<double>(after - before) / trained;
  };
  state.counters["issue_ms"] = issuing_s * 1e3 / trained;
  state.counters["operations"] = static_cast<double>(operations);
  state.counters["waits_issued"] = each(waits_before.issued, waits.issued);
  state.counters["waits_elided"] = each(waits_before.elided, waits.elided);
  state.counters["reserved_mib"] = static_cast<double>(memory.peak_reserved_bytes) / (1U << 20U);
  state.counters["in_use_mib"] = static_cast<double>(memory.peak_live_bytes) / (1U << 20U);
}

}  // namespace benchmarks
