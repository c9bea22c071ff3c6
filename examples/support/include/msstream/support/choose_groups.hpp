// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/auto_assignment.hpp>
#include <msstream/support/metrics.hpp>
#include <msstream/support/step_training.hpp>
#include <msstream/support/tried_groups.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msstream::support {

/// Groups for a training, with what was expected and what was measured.
struct ChosenGroups {
  AutoAssignment predicted;
  TriedGroups tried;
  /// As a StreamAssignment reads it; without any line where the model's own groups are best.
  std::string text;
};

constexpr int kTrialRounds = 7;
/// The most that choose_groups() makes.
constexpr int kGroupTrials = 3 * kTrialRounds;

/// Trainings of one model on different groups, timed beside each other.
template <Runtime R, class Build>
class GroupTrial {
 public:
  GroupTrial(StepSetting const& setting, ops::OptimizerRule const& rule, Build const& build)
      : setting_(setting), rule_(rule), build_(build) {}

  /// The number of the candidate, from 0.
  std::size_t add(std::string const& groups) {
    auto& training = trainings_.emplace_back(std::make_unique<Training>(
        setting_,
        rule_,
        build_,
        StreamAssignment::parse(groups, "auto_assignment", setting_.groups)));
    training->step();
    return trainings_.size() - 1;
  }
  /// Of each candidate, the median of what a step takes in several rounds, in ms; `tell(trials)`
  /// after each. Where steps are
  /// captured, each round has a capture of its own: how a graph is laid out on a device, which
  /// differs from one to the next, makes up to a fifth.
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

/// Groups for the steps that are issued as `setting` says: those that auto_assignment() finds by a
/// step that is traced on the model's own, if they are measured to be faster than those and than
/// one group. Launch threads are in what is measured, not in what is predicted. What is the same is
/// tried once. `tell(trials)` as it goes.
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
