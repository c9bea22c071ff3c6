// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/capture/detail/any_captured_step.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/runtime/default_runtime.hpp>
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

/// The updates of parameters that the lookups of a batch see if they are issued beside the training
/// on the previous batch.
enum class Staleness : std::uint8_t {
  exact,          ///< all updates; gives the bits of sequential training
  one_step_stale  ///< all updates except that by the previous batch
};

template <Runtime R = DefaultRuntime>
struct TwoStageOptions {
  StreamGroup<R> first;                    ///< receives the stages that are issued ahead
  StreamGroup<R> main;                     ///< receives the other stages
  Staleness staleness = Staleness::exact;  ///< the updates that lookups see
};

namespace detail {

/// The user's functions for the stages of training on a batch. TwoStageOptions has the stream
/// groups to which the stages are issued.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
struct TrainingStages {
  std::function<Prepared(GradientTape<R>&, Batch const&)> prepare;
  std::function<Features(GradientTape<R>&, Prepared const&)> embed;
  std::function<Result(GradientTape<R>&, Features const&)> main;
  std::function<void(GradientTape<R>&)> update;
};

/// The untyped interface to a batch on its way through the stages of training. The user chooses the
/// types of batches and results. The stages are issued to the current group.
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
  /// Drops everything that the stages have made from the batch, except the result of the main
  /// stage.
  virtual void forget() = 0;
  virtual void drop_result() = 0;
};

/// A batch on its way through the stages, with a tape of its own, so that another batch may be in
/// flight at the same time.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
class StagedBatch : public AnyStagedBatch {
 public:
  using Stages = TrainingStages<R, Batch, Prepared, Features, Result>;

  /// Makes a place for one batch at a time. `stages` must outlive the object.
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

/// The implementation of TwoStage and CapturedTwoStage, compiled once for all runtimes: two places
/// for batches. One batch is in flight while the next one begins in the other place. Operations
/// that the class issues itself have the source location `issued_at`.
class AnyTwoStage {
 public:
  /// Makes a pipeline with two places for batches. If `captures` is null, the stages always run
  /// eagerly; otherwise the stages of a place are captured on the device `*captures` when its
  /// second batch comes, and replayed from then on.
  AnyTwoStage(std::shared_ptr<StreamGroup> first,
              std::shared_ptr<StreamGroup> main,
              Staleness staleness,
              std::optional<AnyDevice> captures,
              std::unique_ptr<AnyStagedBatch> place,
              std::unique_ptr<AnyStagedBatch> other_place);

  /// Begins a batch, which `take` puts into the place that is its argument, in the scope of the
  /// first group; then finishes the previous batch. Returns the place of the previous batch, which
  /// has the result, or null if there was none. If beginning the batch throws, the previous batch
  /// stays in flight; if finishing the previous batch throws, the new one stays in flight.
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
  /// Drops the batch and the captured steps of a place.
  static void forget(Place& place);

  std::shared_ptr<StreamGroup> first_;
  std::shared_ptr<StreamGroup> main_;
  bool is_exact_;
  std::optional<AnyDevice> captures_;
  Place places_[2];
  int next_ = 0;
  Place* in_flight_ = nullptr;
};

/// The type of the second argument of a stage's function, whose first argument is the tape. The
/// function object must not be overloaded.
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
/// Trains on one batch after the other, and runs the first stage of a batch beside the main stage
/// of the previous batch.
///
///     TwoStage pipeline(
///         device,
///         {.first = pool[1], .main = pool[0]},
///         [&](GradientTape<>& tape, Batch const& batch) {  // prepare: needs no parameter
///           auto const rows = ops::hash_to_tables(tables, batch.keys);
///           tape.unique_rows(rows, tables.weights().shape()[0]);  // for the backward
///           return Prepared{rows, batch.labels};
///         },
///         [&](GradientTape<>& tape, Prepared const& batch) {  // embed: the lookups
///           return Features{ops::embedding_lookup(tape, tables, batch.rows), batch.labels};
///         },
///         [&](GradientTape<>& tape, Features const& batch) {  // main: forward and backward
///           auto const loss = model.loss(tape, batch);
///           tape.backward(loss);
///           return loss;
///         },
///         [&](GradientTape<>& tape) { optimizer.step(tape); });  // update: moves the parameters
///     while (auto batch = batches.next()) {
///       auto const loss_before = pipeline.run(*batch);
///     }
///     auto const last_loss = pipeline.finish();
///
/// Staleness::exact: `prepare` is issued ahead, to the first group. `embed`, `main` and `update`
/// are issued to the main group after the update by the previous batch. Gives the bits of
/// sequential training.
///
/// Staleness::one_step_stale: `embed` is issued ahead, too, before the update by the previous
/// batch. A lookup sees each row as it was one step earlier; the first two batches see the same
/// rows; and gradients with respect to older rows are applied to the current rows. The backward of
/// operations that `embed` records must not read a parameter, which would be one step newer by
/// then: lookups do not read one, a dense layer does. In both modes any groups, launch threads and
/// kinds of waits give the same bits.
///
/// Scopes that the stages open have their usual effect. Each batch uses one of two tapes, which is
/// passed to the stages and cleared after `update`. The main stage of a batch waits for the
/// operations that were issued ahead for it; the main stage of the previous batch does not.
///
/// If a stage throws, its batch is left out from that stage on: the tape is cleared, and the other
/// batch stays in flight. If `update` throws, some parameters may have been updated and others not.
/// Does not block the host unless a stage does. Not synchronised.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
class TwoStage {
  using Place = detail::StagedBatch<R, Batch, Prepared, Features, Result>;
  using Stages = typename Place::Stages;

 public:
  /// Makes a pipeline without a batch in flight, of the functions of the four stages.
  TwoStage(Device<R> const& device,
           TwoStageOptions<R> const& options,
           decltype(Stages::prepare) prepare,
           decltype(Stages::embed) embed,
           decltype(Stages::main) main,
           decltype(Stages::update) update)
      : stages_{std::move(prepare), std::move(embed), std::move(main), std::move(update)},
        any_(options.first.share_engine(),
             options.main.share_engine(),
             options.staleness,
             std::nullopt,
             std::make_unique<Place>(device, stages_),
             std::make_unique<Place>(device, stages_)) {}
  TwoStage(TwoStage const&) = delete;
  TwoStage& operator=(TwoStage const&) = delete;

  /// Issues the stages of `batch` that run ahead, then the remaining stages of the previous batch,
  /// and returns what `main` returned for the previous batch. Null for the first batch, and for the
  /// first batch after finish().
  std::optional<Result> run(Batch const& batch,
                            std::source_location issued_at = std::source_location::current()) {
    return result_of(
        any_.run([&](auto& place) { static_cast<Place&>(place).batch = &batch; }, issued_at));
  }
  /// Issues the remaining stages of the last batch and returns what `main` returned. Null if no
  /// batch is in flight.
  std::optional<Result> finish(std::source_location issued_at = std::source_location::current()) {
    return result_of(any_.finish(issued_at));
  }

 private:
  [[nodiscard]] static std::optional<Result> result_of(detail::AnyStagedBatch* place) {
    return place == nullptr ? std::nullopt
                            : std::exchange(static_cast<Place*>(place)->result, std::nullopt);
  }

  Stages stages_;
  detail::AnyTwoStage any_;
};

template <Runtime R, class Prepare, class Embed, class Main, class Update>
TwoStage(Device<R>, TwoStageOptions<R>, Prepare, Embed, Main, Update)
    -> TwoStage<R,
                detail::stage_input_t<Prepare>,
                detail::stage_result_t<Prepare, R, detail::stage_input_t<Prepare>>,
                detail::stage_input_t<Main>,
                detail::stage_result_t<Main, R, detail::stage_input_t<Main>>>;

/// A TwoStage whose stages are captured once and replayed.
///
///     CapturedTwoStage pipeline(
///         device, {.first = pool[1], .main = pool[0]},
///         [&] { return Inputs(device, batch_size); },
///         prepare, embed, main, update);  // as for TwoStage, with Inputs instead of a batch
///     for (auto const& batch : batches) {
///       auto const loss_before = pipeline.run([&](Inputs const& inputs) { inputs.take(batch); });
///     }
///     auto const last_loss = pipeline.finish();
///
/// Two batches are in flight, each in its own inputs, so that `make` is called twice. `fill` writes
/// a batch into the inputs in place, in the scope of the first group. The first batch in each of
/// the two inputs runs eagerly. A later batch costs two launches, one for the part that is issued
/// ahead and one for the rest; with one_step_stale it costs three, because the update is launched
/// separately, so that only the update waits for the lookups of the next batch. Gives the same bits
/// as TwoStage. `main` returns one of two sets of tensors, which every second batch shares and each
/// replay writes. Each captured part keeps the memory that it uses.
///
/// Host code in the stages runs at most four times, as in a CapturedStep. If a stage throws, its
/// batch is left out, as in TwoStage; if the batch's inputs had captured parts, they are captured
/// again.
template <CapturingRuntime R, class Inputs, class Prepared, class Features, class Result>
class CapturedTwoStage {
  using StagedBatch = detail::StagedBatch<R, Inputs, Prepared, Features, Result>;
  using Stages = typename StagedBatch::Stages;

 public:
  /// Makes a pipeline without a batch in flight, and calls `make` for each of its two inputs.
  CapturedTwoStage(Device<R> const& device,
                   TwoStageOptions<R> const& options,
                   std::function<Inputs()> const& make,
                   decltype(Stages::prepare) prepare,
                   decltype(Stages::embed) embed,
                   decltype(Stages::main) main,
                   decltype(Stages::update) update)
      : stages_{std::move(prepare), std::move(embed), std::move(main), std::move(update)},
        any_(options.first.share_engine(),
             options.main.share_engine(),
             options.staleness,
             device.engine(),
             std::make_unique<Place>(device, make, stages_),
             std::make_unique<Place>(device, make, stages_)) {}
  CapturedTwoStage(CapturedTwoStage const&) = delete;
  CapturedTwoStage& operator=(CapturedTwoStage const&) = delete;

  /// Issues or replays the stages that run ahead of the batch that `fill(inputs)` writes into the
  /// inputs, then the remaining stages of the previous batch, and returns what `main` returned for
  /// the previous batch. Null for the first batch, and for the first batch after finish().
  template <class Fill>
  std::optional<Result> run(Fill const& fill,
                            std::source_location issued_at = std::source_location::current()) {
    return result_of(any_.run(
        [&](auto& place) { fill(std::as_const(static_cast<Place&>(place).inputs)); }, issued_at));
  }
  /// Issues or replays the remaining stages of the last batch and returns what `main` returned.
  /// Null if no batch is in flight.
  std::optional<Result> finish(std::source_location issued_at = std::source_location::current()) {
    return result_of(any_.finish(issued_at));
  }

 private:
  struct Place : StagedBatch {
    Place(Device<R> const& device, std::function<Inputs()> const& make, Stages const& stages)
        : StagedBatch(device, stages), inputs(make()) {
      this->batch = &inputs;
    }

    Inputs inputs;
  };
  [[nodiscard]] static std::optional<Result> result_of(detail::AnyStagedBatch* place) {
    return place == nullptr ? std::nullopt : static_cast<Place*>(place)->result;
  }

  Stages stages_;
  detail::AnyTwoStage any_;
};

template <CapturingRuntime R, class Make, class Prepare, class Embed, class Main, class Update>
CapturedTwoStage(Device<R>, TwoStageOptions<R>, Make, Prepare, Embed, Main, Update)
    -> CapturedTwoStage<R,
                        std::invoke_result_t<Make>,
                        detail::stage_result_t<Prepare, R, std::invoke_result_t<Make>>,
                        detail::stage_input_t<Main>,
                        detail::stage_result_t<Main, R, detail::stage_input_t<Main>>>;

}  // namespace msstream
