// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/lookups_in_parts.hpp"
#include "training/ranks.hpp"
#include "training/step_setting.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/record_step.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace msstream::training {

/// Trains a model on inputs at fixed addresses, whose contents may change between steps.
///
/// A model has `loss(tape, pool, inputs)` and `parameters()`, all of which are trained, and may
/// have tables in parts, `in_parts()`. If ranks train together, the inputs are BatchesOfParts, and
/// the model gets those of one part at a time; the parts have equally many samples. Not
/// thread-safe. The object keeps a StreamScope open, so it must be destroyed before scopes that
/// were opened before it.
template <Runtime R, class Model, class Inputs>
class StepTraining {
 public:
  /// Prepares a training, of one rank. `build(device)` returns the model and the inputs, as a pair.
  template <class Build>
  StepTraining(StepSetting const& setting,
               ops::OptimizerRule const& rule,
               Build const& build,
               std::optional<StreamAssignment> assignment = std::nullopt,
               RankSetting const& rank = {})
      : device_(training::device_of<R>(
            rank.world,
            {.reduce_waits = setting.reduce_waits, .matmul_precision = setting.precision})),
        pool_(device_, pool_options(setting, std::move(assignment))),
        tape_(device_),
        built_(build(std::as_const(device_))),
        ranks_(device_, built_.first.parameters(), rank),
        loss_scale_(setting.loss_scale
                        ? std::optional<LossScale<R>>(std::in_place, device_, *setting.loss_scale)
                        : std::nullopt),
        optimizer_(device_,
                   rule,
                   {.tables_together = setting.tables_together,
                    .schedule = setting.schedule,
                    .clip_norm = setting.clip_norm,
                    .loss_scale = loss_scale_,
                    .table_rounding = setting.table_rounding,
                    .rounding_seed = setting.rounding_seed,
                    .copies = setting.copies}),
        captures_(setting.captured) {
    if (!pool_.options().propagate_groups) {
      trunk_.emplace(pool_[0]);
    }
    if (ranks_.has_halves()) {
      second_pool_.emplace(device_, pool_options(setting, std::nullopt));
    }
    if (setting.finds_overflow) {
      locator_.emplace(tape_, model().parameters());
    }
    optimizer_.add(model().parameters());
    if (auto const* const lookups = lookups_in_parts<R>(model())) {
      lookups->tables().add_to(optimizer_);
    }
  }

  /// Calls `feed(inputs)`, which writes the batch of the next step in place. It does not matter
  /// whether the step is the last one.
  template <class Feed>
  void take(Feed const& feed, [[maybe_unused]] bool is_last) {
    feed(inputs());
  }
  /// Issues one training step, without blocking the host.
  void step() {
    if (captures_ && loss_ && !captured_) {
      auto const before = device_.wait_counts().issued;
      captured_.emplace(device_, [this] {
        train();
        captured_loss_ = loss_;
      });
      waits_in_graph_ = device_.wait_counts().issued - before;
    }
    if (captured_) {
      captured_->replay();
      loss_ = captured_loss_;
    } else {
      train();
    }
  }
  /// Issues one training step, without blocking the host, operation by operation, also if other
  /// steps are replays. If there are several ranks, all of them call it for the same step.
  void step_eagerly() { train(); }
  /// Returns the loss of the latest training step, of all ranks.
  [[nodiscard]] Tensor<float, R> const& loss() const { return loss_.value(); }
  [[nodiscard]] bool is_captured() const noexcept { return captured_.has_value(); }
  /// Returns the number of waits between streams in the captured step. The number is right if no
  /// other thread issues to the device during the capture.
  [[nodiscard]] std::uint64_t waits_in_graph() const noexcept { return waits_in_graph_; }
  /// Drops the captured step. If steps are captured, step() captures the next one anew.
  void forget_capture() { captured_.reset(); }

  /// Trains two steps eagerly, and returns the trace of the second with the time for issuing the
  /// first. Blocks the host.
  [[nodiscard]] StepTrace record(SpanTiming timing) {
    using Clock = std::chrono::steady_clock;
    synchronize();
    auto const begin = Clock::now();
    train();
    std::chrono::duration<double, std::nano> const issuing = Clock::now() - begin;
    auto const trace = record_step(
        device_, [this] { train(); }, timing);
    return trace.with_issue_time(issuing.count());
  }
  void synchronize() {
    pool_.synchronize();
    if (second_pool_) {
      second_pool_->synchronize();
    }
  }

  [[nodiscard]] Device<R> const& device() const noexcept { return device_; }
  [[nodiscard]] StreamPool<R>& pool() noexcept { return pool_; }
  [[nodiscard]] GradientTape<R>& tape() noexcept { return tape_; }
  /// Returns the scale of the loss, if the setting has one.
  [[nodiscard]] std::optional<LossScale<R>> const& loss_scale() const noexcept {
    return loss_scale_;
  }
  /// Returns what finds the first overflow, if the setting asks for it.
  [[nodiscard]] std::optional<NonFiniteLocator<R>> const& locator() const noexcept {
    return locator_;
  }
  [[nodiscard]] Model const& model() const noexcept { return built_.first; }
  [[nodiscard]] Optimizer<R> const& optimizer() const noexcept { return optimizer_; }
  [[nodiscard]] Optimizer<R>& optimizer() noexcept { return optimizer_; }
  [[nodiscard]] Inputs const& inputs() const noexcept { return built_.second; }
  [[nodiscard]] Ranks<R> const& ranks() const noexcept { return ranks_; }

 private:
  [[nodiscard]] static StreamPoolOptions pool_options(StepSetting const& setting,
                                                      std::optional<StreamAssignment> assignment) {
    return {.groups = setting.groups,
            .merge_streams = setting.merge_streams,
            .launch_threads = setting.launch_threads,
            .launch_thread_count = setting.launch_thread_count,
            .assignment = std::move(assignment),
            .log = nullptr};
  }
  void train() {
    loss_ = ranks_.backward(tape_, loss_scale_, [&](int part) {
      auto& pool = ranks_.has_halves() && part == 1 ? *second_pool_ : pool_;
      return model().loss(tape_, pool, inputs_of_part(inputs(), part));
    });
    optimizer_.step(tape_);
    tape_.clear();
    if (auto const* const lookups = lookups_in_parts<R>(model())) {
      lookups->end_step();
    }
  }

  Device<R> device_;
  StreamPool<R> pool_;
  /// The scope that runs all work outside branches on group 0. Empty if groups are propagated: such
  /// work then runs where its inputs were written.
  std::optional<StreamScope<R>> trunk_;
  GradientTape<R> tape_;
  std::pair<Model, Inputs> built_;
  Ranks<R> ranks_;
  std::optional<StreamPool<R>>
      second_pool_;  ///< of the second half of a batch, if there are halves
  std::optional<LossScale<R>> loss_scale_;
  Optimizer<R> optimizer_;
  std::optional<NonFiniteLocator<R>> locator_;  ///< which outlives the captured step
  bool captures_;
  std::optional<Tensor<float, R>> loss_;
  std::optional<CapturedStep<R>> captured_;
  std::optional<Tensor<float, R>> captured_loss_;  ///< that replays write
  std::uint64_t waits_in_graph_ = 0;
};

/// The type of the StepTraining for the model and the inputs that `build` returns.
template <Runtime R, class Build>
using StepTrainingOf =
    StepTraining<R,
                 typename std::invoke_result_t<Build const&, Device<R> const&>::first_type,
                 typename std::invoke_result_t<Build const&, Device<R> const&>::second_type>;

/// Returns the trace of the fourth step of a temporary training of the model, whose steps are
/// issued eagerly. If `timing` is `held`, the calling thread launches the operations.
template <Runtime R, class Build>
[[nodiscard]] StepTrace rehearse(StepSetting setting,
                                 ops::OptimizerRule const& rule,
                                 Build const& build,
                                 std::optional<StreamAssignment> assignment = std::nullopt,
                                 SpanTiming timing = SpanTiming::held) {
  setting.captured = false;
  if (timing == SpanTiming::held) {
    setting.launch_threads = LaunchThreads::none;
    setting.launch_thread_count = 0;
  }
  StepTrainingOf<R, Build> training(setting, rule, build, std::move(assignment));
  training.step();
  training.step();
  return training.record(timing);
}

/// Returns what predict() has to assume for steps that are issued as `setting` says.
[[nodiscard]] inline StepModel step_model(StepSetting const& setting) {
  return {.launch = setting.captured ? StepModel::Launch::graph : StepModel::Launch::eager,
          .merge_streams = setting.merge_streams};
}

}  // namespace msstream::training
