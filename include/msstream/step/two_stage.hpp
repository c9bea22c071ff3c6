// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/training_stages.hpp>

#include <memory>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream {

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

  /// Issues the stages of this batch that go ahead, then the other stages of the previous batch,
  /// and returns what `main` returned for the previous batch. Null for the first batch, and for the
  /// first batch after finish().
  std::optional<Result> run(Batch const& batch,
                            std::source_location issued_at = std::source_location::current()) {
    return result_of(
        any_.run([&](auto& place) { static_cast<Place&>(place).batch = &batch; }, issued_at));
  }
  /// Issues the other stages of the last batch and returns what `main` returned. Null if no batch
  /// is in flight.
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

}  // namespace msstream
