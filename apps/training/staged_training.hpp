// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/step_training.hpp"

#include <msstream/step/two_stage.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace msstream::training {

/// A StepTraining whose steps may be issued in two stages, by StepSetting::two_stage: the first
/// stage of a batch beside the training on the batch before. One rank.
///
/// A model also has `prepare(tape, inputs)`, `embed(tape, pool, prepared)` and `loss_of(tape, pool,
/// features)`, the stages of a TwoStage, and `build.inputs(device)` returns inputs. In two stages
/// a batch begins with the step before its own, so that the last step before a pause feeds none.
template <Runtime R, class Build>
class StagedTraining {
  using Base = StepTrainingOf<R, Build>;
  using Model = std::remove_cvref_t<decltype(std::declval<Base const&>().model())>;
  using Inputs = std::remove_cvref_t<decltype(std::declval<Base const&>().inputs())>;
  using Tape = GradientTape<R>;
  using Prepared =
      std::invoke_result_t<decltype(&Model::prepare), Model const&, Tape&, Inputs const&>;
  using Features = std::invoke_result_t<decltype(&Model::embed),
                                        Model const&,
                                        Tape&,
                                        StreamPool<R>&,
                                        Prepared const&>;
  using Loss = Tensor<float, R>;
  using Feed = std::function<void(Inputs const&)>;

 public:
  StagedTraining(StepSetting const& setting,
                 ops::OptimizerRule const& rule,
                 Build const& build,
                 std::optional<StreamAssignment> assignment = std::nullopt,
                 RankSetting const& rank = {})
      : base_(setting, rule, build, std::move(assignment), rank) {
    if (!setting.two_stage) {
      return;
    }
    auto const groups = base_.pool().groups();
    // The last group has other work of the model where there are more than two.
    TwoStageOptions<R> const options{.first = base_.pool()[groups > 2 ? groups - 2 : groups - 1],
                                     .main = base_.pool()[0],
                                     .staleness = *setting.two_stage};
    auto const make = [this, build] { return build.inputs(base_.device()); };
    auto const prepare = [this](Tape& tape, Inputs const& inputs) {
      return base_.model().prepare(tape, inputs);
    };
    auto const embed = [this](Tape& tape, Prepared const& prepared) {
      return base_.model().embed(tape, base_.pool(), prepared);
    };
    auto const main = [this](Tape& tape, Features const& features) {
      auto loss = base_.model().loss_of(tape, base_.pool(), features);
      auto const& scale = base_.loss_scale();
      tape.backward(scale ? scale->scaled(tape, loss) : loss);
      return loss;
    };
    auto const update = [this](Tape& tape) { base_.optimizer().step(tape); };
    if (setting.captured) {
      captured_.emplace(base_.device(), options, make, prepare, embed, main, update);
    } else {
      eager_.emplace(base_.device(), options, prepare, embed, main, update);
      first_ = options.first;
      places_ = {make(), make()};
    }
  }
  StagedTraining(StagedTraining const&) = delete;
  StagedTraining& operator=(StagedTraining const&) = delete;

  /// Feeds the batch of the next step, or in two stages that of the step after it, unless the next
  /// step `is_last`. In two stages, `feed` is called by step().
  template <class AnyFeed>
  void take(AnyFeed const& feed, bool is_last) {
    if (is_staged()) {
      feed_ = feed;
      is_last_ = is_last;
    } else {
      base_.take(feed, is_last);
    }
  }
  /// Issues one training step, without blocking the host.
  void step() {
    if (!is_staged()) {
      base_.step();
      return;
    }
    if (!is_in_flight_) {
      static_cast<void>(run());
    }
    loss_ = is_last_ ? finish() : run();
    is_in_flight_ = !is_last_;
  }
  /// Issues one training step operation by operation if it is not in two stages.
  void step_eagerly() {
    if (is_staged()) {
      step();
    } else {
      base_.step_eagerly();
    }
  }
  [[nodiscard]] Loss const& loss() const { return is_staged() ? loss_.value() : base_.loss(); }
  [[nodiscard]] bool is_captured() const noexcept {
    return captured_ ? batches_ > kEagerBatches : base_.is_captured();
  }
  /// Returns the number of waits between streams in the captured step; null if there are several.
  [[nodiscard]] std::optional<std::uint64_t> waits_in_graph() const noexcept {
    return captured_ ? std::nullopt : std::optional(base_.waits_in_graph());
  }

  void synchronize() { base_.synchronize(); }
  [[nodiscard]] Device<R> const& device() const noexcept { return base_.device(); }
  [[nodiscard]] StreamPool<R>& pool() noexcept { return base_.pool(); }
  /// Returns a tape that no step uses at the time.
  [[nodiscard]] Tape& tape() noexcept { return base_.tape(); }
  [[nodiscard]] std::optional<LossScale<R>> const& loss_scale() const noexcept {
    return base_.loss_scale();
  }
  [[nodiscard]] std::optional<NonFiniteLocator<R>> const& locator() const noexcept {
    return base_.locator();
  }
  [[nodiscard]] Model const& model() const noexcept { return base_.model(); }
  [[nodiscard]] Optimizer<R> const& optimizer() const noexcept {
    return std::as_const(base_).optimizer();
  }
  [[nodiscard]] Ranks<R> const& ranks() const noexcept { return base_.ranks(); }

 private:
  /// The first batch in each of the two inputs is trained on eagerly.
  static constexpr std::int64_t kEagerBatches = 2;

  [[nodiscard]] bool is_staged() const noexcept { return captured_ || eager_; }

  /// Begins a batch, and returns the loss of the one before.
  std::optional<Loss> run() {
    ++batches_;
    if (captured_) {
      return captured_->run(feed_);
    }
    auto const& inputs = *places_[static_cast<std::size_t>(batches_ % 2)];
    // The first stage may issue nothing, and then publishes nothing: without an event of its own,
    // the copies of this batch would be waited for together with those of the next one.
    issue_published(*first_, [&] { feed_(inputs); });
    return eager_->run(inputs);
  }
  std::optional<Loss> finish() { return captured_ ? captured_->finish() : eager_->finish(); }

  Base base_;
  std::optional<StreamGroup<R>> first_;          ///< of stages that are issued ahead
  std::array<std::optional<Inputs>, 2> places_;  ///< for the batches of eager steps
  std::optional<TwoStage<R, Inputs, Prepared, Features, Loss>> eager_;
  std::optional<CapturedTwoStage<R, Inputs, Prepared, Features, Loss>> captured_;
  Feed feed_;
  bool is_last_ = false;
  bool is_in_flight_ = false;  ///< whether a batch has begun
  std::int64_t batches_ = 0;   ///< that have begun
  std::optional<Loss> loss_;
};

}  // namespace msstream::training
