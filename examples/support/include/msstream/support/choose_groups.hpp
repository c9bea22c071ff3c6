// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/auto_assignment.hpp>
#include <msstream/support/step_training.hpp>
#include <msstream/support/tried_groups.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace msstream::support {

/// Groups for a training, with what was expected and what was measured.
struct ChosenGroups {
  AutoAssignment predicted;
  TriedGroups tried;
  /// As a StreamAssignment reads it; without any line where the model's own groups are best.
  std::string text;
};

/// What a step of a training takes, in ms, with the captures of several trials: how a graph is laid
/// out on a device, which differs from one to the next, makes up to a fifth. The training then
/// goes.
template <Runtime R, class Build>
[[nodiscard]] double measure_step_ms(StepSetting const& setting,
                                     ops::OptimizerRule const& rule,
                                     Build const& build,
                                     std::optional<StreamAssignment> assignment) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTrials = 5;
  constexpr int kSteps = 8;
  StepTrainingOf<R, Build> training(setting, rule, build, std::move(assignment));
  training.step();
  Clock::duration taken{0};
  for (int trial = 0; trial < kTrials; ++trial) {
    training.forget_capture();
    training.step();
    training.synchronize();
    auto const begin = Clock::now();
    for (int step = 0; step < kSteps; ++step) {
      training.step();
    }
    training.synchronize();
    taken += Clock::now() - begin;
  }
  return std::chrono::duration<double, std::milli>(taken).count() / (kTrials * kSteps);
}

/// Groups for the steps that are issued as `setting` says: those that auto_assignment() finds by a
/// step that is traced on the model's own, if they are measured to be faster than those and than
/// one group.
template <Runtime R, class Build>
[[nodiscard]] ChosenGroups choose_groups(StepSetting const& setting,
                                         ops::OptimizerRule const& rule,
                                         Build const& build) {
  auto predicted = auto_assignment(
      rehearse<R>(setting, rule, build), setting.groups, {.model = step_model(setting)});
  auto const measure = [&](std::string const& groups) {
    return measure_step_ms<R>(
        setting, rule, build, StreamAssignment::parse(groups, "auto_assignment", setting.groups));
  };
  constexpr char const* kOneGroup = "0:.*\n";
  TriedGroups const tried{.chosen_ms = measure(predicted.text),
                          .one_group_ms = measure(kOneGroup),
                          .own_ms = measure("")};
  auto kept = text("# Measured, ms a step: ",
                   tried.chosen_ms,
                   " on the groups of auto_assignment(), ",
                   tried.one_group_ms,
                   " on one, ",
                   tried.own_ms,
                   " on the model's own.\n");
  switch (tried.fastest()) {
    case TriedGroups::Fastest::chosen:
      kept += predicted.text;
      break;
    case TriedGroups::Fastest::one_group:
      kept += kOneGroup;
      break;
    case TriedGroups::Fastest::own:
      kept += "# So the model's own are kept.\n";
      break;
  }
  return {std::move(predicted), tried, std::move(kept)};
}

}  // namespace msstream::support
