// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/percentile.hpp"
#include "training/step_training.hpp"
#include "training/tried_groups.hpp"

#include <msstream/step/auto_assignment.hpp>

#include <fmt/core.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msstream::training {

/// The stream groups chosen for a training, with the predicted and the measured times.
struct ChosenGroups {
  AutoAssignment predicted;
  TriedGroups tried;
  /// The assignment in the text form of StreamAssignment. If the model's own groups are fastest, it
  /// assigns nothing.
  std::string text;
};

constexpr int kTrialRounds = 7;
/// The largest number of trials that choose_groups() makes.
constexpr int kGroupTrials = 3 * kTrialRounds;

/// Trainings of one model on different stream groups, which are timed in turn.
template <Runtime R, class Build>
class GroupTrial {
 public:
  GroupTrial(StepSetting const& setting, ops::OptimizerRule const& rule, Build const& build)
      : setting_(setting), rule_(rule), build_(build) {}

  /// Adds a candidate assignment of stream groups, and returns its number, from 0.
  std::size_t add(std::string const& groups) {
    auto& training = trainings_.emplace_back(std::make_unique<Training>(
        setting_,
        rule_,
        build_,
        StreamAssignment::parse(groups, "auto_assignment", setting_.groups)));
    training->step();
    return trainings_.size() - 1;
  }
  /// Returns, for each candidate, the median time of a step over several rounds, in ms. Calls
  /// `tell(trials)` with the number of trials so far after each trial. If steps are captured, each
  /// round captures anew: the layout of a graph on the device differs between captures, which
  /// changes the time by up to a fifth.
  template <class Tell>
  [[nodiscard]] std::vector<double> run(Tell const& tell) {
    std::vector<std::vector<double>> ms(trainings_.size());
    int done = 0;
    for (int round = 0; round < kTrialRounds; ++round) {
      for (std::size_t i = 0; i < trainings_.size(); ++i) {
        ms[i].push_back(time_steps(*trainings_[i]));
        tell(++done);
      }
    }
    std::vector<double> medians;
    medians.reserve(ms.size());
    for (auto const& rounds : ms) {
      medians.push_back(percentile(rounds, 50));
    }
    return medians;
  }

 private:
  using Training = StepTrainingOf<R, Build>;

  static double time_steps(Training& training) {
    using Clock = std::chrono::steady_clock;
    constexpr int kSteps = 8;
    training.forget_capture();
    training.step();
    training.synchronize();
    auto const begin = Clock::now();
    for (int step = 0; step < kSteps; ++step) {
      training.step();
    }
    training.synchronize();
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / kSteps;
  }

  StepSetting const& setting_;
  ops::OptimizerRule const& rule_;
  Build const& build_;
  std::vector<std::unique_ptr<Training>> trainings_;
};

/// Chooses the fastest stream groups for steps that are issued as `setting` says, by measuring
/// three candidates: the model's own groups, one group, and the groups that auto_assignment() finds
/// from a trace of a step on the model's own groups. Launch threads are part of the measurements
/// but not of the prediction. Equal candidates are tried once. Calls `tell(trials)` with the number
/// of trials so far after each trial.
template <Runtime R, class Build, class Tell>
[[nodiscard]] ChosenGroups choose_groups(StepSetting const& setting,
                                         ops::OptimizerRule const& rule,
                                         Build const& build,
                                         Tell const& tell) {
  auto predicted = auto_assignment(
      rehearse<R>(setting, rule, build), setting.groups, {.model = step_model(setting)});
  constexpr char const* kOneGroup = "0:.*\n";
  GroupTrial<R, Build> trial(setting, rule, build);
  auto const own = trial.add("");
  bool const is_own = setting.groups == 1 || predicted.predicted_ns == predicted.recorded_ns;
  auto const chosen = is_own ? own : trial.add(predicted.text);
  auto const one_group = setting.groups == 1 ? own : trial.add(kOneGroup);
  auto const ms = trial.run(tell);
  TriedGroups const tried{
      .chosen_ms = ms[chosen], .one_group_ms = ms[one_group], .own_ms = ms[own]};
  auto kept = fmt::format(
      "# Measured, ms a step: {} on the groups of auto_assignment(), {} on one, {} on the model's "
      "own.\n",
      tried.chosen_ms,
      tried.one_group_ms,
      tried.own_ms);
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

}  // namespace msstream::training
