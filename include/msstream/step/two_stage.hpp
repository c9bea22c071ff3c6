// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/training_stages.hpp>
#include <msstream/tensor/publish.hpp>

#include <memory>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream {

/// Trains on one batch after the other, with the first stage of a batch beside the main stage of
/// the batch before.
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
/// exact: `prepare` is issued ahead, to the first group; `embed`, `main` and `update` go to the
/// main group, behind the update by the batch before. The bits are those of training on one batch
/// after the other. one_step_stale: `embed` is issued ahead as well, before the update by the batch
/// before: a lookup sees each row as it was one step earlier, the first two batches see the same
/// rows, and gradients of what was seen move what is there now. What `embed` records must not read
/// a parameter in its backward, which would find it one step newer: lookups do not, a dense layer
/// does. Either way the same bits for any groups, launch threads and kinds of waits.
///
/// Scopes that the stages open count as ever. Each batch has one of two tapes, which the stages
/// get, and which is cleared after `update`. What is issued ahead is waited for by the main stage
/// of its batch, not of the batch before.
///
/// A batch of which a stage throws is left out, as far as it has come: the tape is cleared, and the
/// other batch stays in flight. What `update` threw may have moved some parameters and others not.
/// The host does not block unless a stage does. Not synchronised.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
class TwoStage {
  using Stages = detail::TrainingStages<R, Batch, Prepared, Features, Result>;

 public:
  TwoStage(Device<R> const& device,
           TwoStageOptions<R> const& options,
           decltype(Stages::prepare) prepare,
           decltype(Stages::embed) embed,
           decltype(Stages::main) main,
           decltype(Stages::update) update)
      : stages_{std::move(prepare), std::move(embed), std::move(main), std::move(update)},
        places_(device, stages_, options) {}
  TwoStage(TwoStage const&) = delete;
  TwoStage& operator=(TwoStage const&) = delete;

  /// Issues what of this batch goes ahead, then the rest of the batch before, and returns what
  /// `main` gave for that one: empty for the first batch, and for the first after finish().
  std::optional<Result> run(Batch const& batch,
                            std::source_location issued_at = std::source_location::current()) {
    return places_.run(batch, issued_at);
  }
  /// Issues the rest of the last batch; empty when no batch is in flight.
  std::optional<Result> finish(std::source_location issued_at = std::source_location::current()) {
    return places_.finish(issued_at);
  }

 private:
  class Place {
   public:
    Place(Device<R> const& device, Stages const& stages, TwoStageOptions<R> const& options)
        : first_(options.first.shared_from_this()),
          main_(options.main.shared_from_this()),
          staged_(device, stages, options.staleness) {}

    void begin(Batch const& batch, std::source_location issued_at) {
      issue_published(
          *first_, [&] { staged_.issue_ahead(batch); }, issued_at);
    }
    Result finish(std::source_location issued_at) {
      StreamScope const scope(*main_, {}, issued_at);
      auto result = staged_.issue_main();
      staged_.issue_update();
      return result;
    }
    void forget() { staged_.forget(); }

   private:
    std::shared_ptr<StreamGroup<R>> first_;
    std::shared_ptr<StreamGroup<R>> main_;
    detail::StagedBatch<R, Batch, Prepared, Features, Result> staged_;
  };

  Stages stages_;
  detail::TwoPlaces<Place, Result> places_;
};

template <Runtime R, class Prepare, class Embed, class Main, class Update>
TwoStage(Device<R>, TwoStageOptions<R>, Prepare, Embed, Main, Update)
    -> TwoStage<R,
                detail::stage_input_t<Prepare>,
                detail::stage_result_t<Prepare, R, detail::stage_input_t<Prepare>>,
                detail::stage_input_t<Main>,
                detail::stage_result_t<Main, R, detail::stage_input_t<Main>>>;

}  // namespace msstream
