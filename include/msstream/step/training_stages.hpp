// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/step/detail/any_captured_step.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/stream/stream_group.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream {

/// The updates that the lookups of a batch see if they are issued beside the training on the
/// previous batch.
enum class Staleness : std::uint8_t {
  exact,          ///< all updates; gives the bits of sequential training
  one_step_stale  ///< all updates except that by the previous batch
};

template <Runtime R = DefaultRuntime>
struct TwoStageOptions {
  StreamGroup<R> first;  ///< receives the stages that are issued ahead
  StreamGroup<R> main;   ///< receives the other stages
  Staleness staleness = Staleness::exact;
};

namespace detail {

/// The user's stages of training on a batch. TwoStageOptions has the groups to which they are
/// issued.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
struct TrainingStages {
  std::function<Prepared(GradientTape<R>&, Batch const&)> prepare;
  std::function<Features(GradientTape<R>&, Prepared const&)> embed;
  std::function<Result(GradientTape<R>&, Features const&)> main;
  std::function<void(GradientTape<R>&)> update;
};

/// A batch on its way through the stages, with types of the user's. Its stages are issued to the
/// current group.
class AnyStagedBatch {
 public:
  AnyStagedBatch() = default;
  AnyStagedBatch(AnyStagedBatch const&) = delete;
  AnyStagedBatch& operator=(AnyStagedBatch const&) = delete;
  virtual ~AnyStagedBatch() = default;

  virtual void prepare() = 0;
  virtual void embed() = 0;
  virtual void main() = 0;  ///< keeps the result
  virtual void update() = 0;
  /// Drops everything that the stages have made, except the result of the main stage.
  virtual void forget() = 0;
  virtual void drop_result() = 0;
};

/// A batch with its own tape, so that another batch may be in flight beside it.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
class StagedBatch : public AnyStagedBatch {
 public:
  using Stages = TrainingStages<R, Batch, Prepared, Features, Result>;

  /// Makes a place for batches; `stages` must outlive it.
  StagedBatch(Device<R> device, Stages const& stages) : stages_(stages), tape_(std::move(device)) {}

  void prepare() override { prepared_.emplace(stages_.prepare(tape_, *batch)); }
  void embed() override { features_.emplace(stages_.embed(tape_, *prepared_)); }
  void main() override { result.emplace(stages_.main(tape_, *features_)); }
  void update() override { stages_.update(tape_); }
  void forget() override {
    tape_.clear();
    features_.reset();
    prepared_.reset();
  }
  void drop_result() override { result.reset(); }

  Batch const* batch = nullptr;  ///< what the first stage gets
  std::optional<Result> result = {};

 private:
  Stages const& stages_;
  GradientTape<R> tape_;
  std::optional<Prepared> prepared_;
  std::optional<Features> features_;
};

/// The body of the pipelines, whatever the runtime: two places for batches, one of which is in
/// flight while the next batch begins in the other. Operations that it issues itself have the
/// source location `issued_at`.
class AnyTwoStage {
 public:
  /// Without `captures` the stages always run eagerly. With it, a place's stages are captured there
  /// when its second batch comes, and replayed from then on.
  AnyTwoStage(std::shared_ptr<StreamGroup> first,
              std::shared_ptr<StreamGroup> main,
              Staleness staleness,
              std::optional<AnyDevice> captures,
              std::unique_ptr<AnyStagedBatch> place,
              std::unique_ptr<AnyStagedBatch> other_place);

  /// Begins a batch, which `take` puts into the place that it is given, in the scope of the first
  /// group; then finishes the previous batch. Returns the place of the previous batch, which has
  /// the result, or null if there was none. If the beginning throws, the previous batch stays in
  /// flight; if the finishing throws, this batch does.
  AnyStagedBatch* run(std::function<void(AnyStagedBatch&)> const& take,
                      std::source_location issued_at);
  AnyStagedBatch* finish(std::source_location issued_at);

 private:
  struct Place {
    std::unique_ptr<AnyStagedBatch> batch;
    bool is_warm = false;
    std::optional<AnyCapturedStep> ahead = {};
    std::optional<AnyCapturedStep> rest = {};
    std::optional<AnyCapturedStep> update = {};
  };

  void begin(Place& place,
             std::function<void(AnyStagedBatch&)> const& take,
             std::source_location issued_at);
  AnyStagedBatch* finish(Place* place, std::source_location issued_at);
  void issue_or_replay(Place const& place,
                       std::optional<AnyCapturedStep>& part,
                       std::function<void()> const& issue,
                       std::source_location issued_at);
  /// Drops the place's batch and captured parts.
  static void forget(Place& place);

  std::shared_ptr<StreamGroup> first_;
  std::shared_ptr<StreamGroup> main_;
  bool is_exact_;
  std::optional<AnyDevice> captures_;
  Place places_[2];
  int next_ = 0;
  Place* in_flight_ = nullptr;
};

/// The type of a stage's argument besides the tape, for a function object without overloads.
template <class Stage>
struct StageInput;
template <class Result, class Tape, class Input>
struct StageInput<std::function<Result(Tape, Input)>> {
  using type = std::remove_cvref_t<Input>;
};
template <class Stage>
using stage_input_t = typename StageInput<decltype(std::function(std::declval<Stage>()))>::type;

template <class Stage, Runtime R, class Input>
using stage_result_t = std::invoke_result_t<Stage&, GradientTape<R>&, Input const&>;

}  // namespace detail
}  // namespace msstream
