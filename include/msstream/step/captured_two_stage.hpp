// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/captured_step.hpp>
#include <msstream/step/training_stages.hpp>
#include <msstream/tensor/publish.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream {

/// TwoStage whose stages are captured once and replayed.
///
///     CapturedTwoStage pipeline(
///         device, {.first = pool[1], .main = pool[0]},
///         [&] { return Inputs(device, batch_rows); },
///         prepare, embed, main, update);  // as for TwoStage, with Inputs for a batch
///     for (auto const& batch : batches) {
///       auto const loss_before = pipeline.run([&](Inputs const& inputs) { inputs.take(batch); });
///     }
///     auto const last_loss = pipeline.finish();
///
/// `make` is called twice: two batches are in flight, each in inputs of its own, into which `fill`
/// writes a batch in place, in the first group's scope. The first batch in each runs eagerly. From
/// then on a batch costs two launches: what is issued ahead, and the rest; three if
/// one_step_stale, where the update is one of its own, so that only it waits for the next batch's
/// lookups. The same bits as TwoStage gives. What `main` returns is one of two, of every other
/// batch the same tensors, written by each replay. Each captured part keeps the memory that it
/// uses.
///
/// What the stages do on the host they do four times at most, as in a CapturedStep. A batch of
/// which a stage throws is left out as TwoStage does; where it was captured already, its inputs are
/// captured anew.
template <CapturingRuntime R, class Inputs, class Prepared, class Features, class Result>
class CapturedTwoStage {
  using Stages = detail::TrainingStages<R, Inputs, Prepared, Features, Result>;

 public:
  CapturedTwoStage(Device<R> const& device,
                   TwoStageOptions<R> const& options,
                   std::function<Inputs()> const& make,
                   decltype(Stages::prepare) prepare,
                   decltype(Stages::embed) embed,
                   decltype(Stages::main) main,
                   decltype(Stages::update) update)
      : stages_{std::move(prepare), std::move(embed), std::move(main), std::move(update)},
        places_(device, make, stages_, options) {}
  CapturedTwoStage(CapturedTwoStage const&) = delete;
  CapturedTwoStage& operator=(CapturedTwoStage const&) = delete;

  /// As TwoStage::run(), for the batch that `fill(inputs)` writes into the inputs.
  template <class Fill>
  std::optional<Result> run(Fill const& fill,
                            std::source_location issued_at = std::source_location::current()) {
    return places_.run(fill, issued_at);
  }
  /// As TwoStage::finish().
  std::optional<Result> finish(std::source_location issued_at = std::source_location::current()) {
    return places_.finish(issued_at);
  }

 private:
  class Place {
   public:
    Place(Device<R> device,
          std::function<Inputs()> const& make,
          Stages const& stages,
          TwoStageOptions<R> const& options)
        : device_(std::move(device)),
          first_(options.first.shared_from_this()),
          main_(options.main.shared_from_this()),
          is_exact_(options.staleness == Staleness::exact),
          inputs_(make()),
          staged_(device_, stages, options.staleness) {}

    template <class Fill>
    void begin(Fill const& fill, std::source_location issued_at) {
      issue_published(
          *first_,
          [&] {
            fill(std::as_const(inputs_));
            run(
                ahead_, [&] { staged_.issue_ahead(inputs_); }, issued_at);
          },
          issued_at);
    }
    Result finish(std::source_location issued_at) {
      StreamScope const scope(*main_, {}, issued_at);
      auto const issue_main = [&] { result_.emplace(staged_.issue_main()); };
      auto const issue_update = [&] { staged_.issue_update(); };
      if (is_exact_) {
        run(
            rest_,
            [&] {
              issue_main();
              issue_update();
            },
            issued_at);
      } else {
        run(rest_, issue_main, issued_at);
        run(update_, issue_update, issued_at);
      }
      is_warm_ = true;
      return *result_;
    }
    void forget() {
      update_.reset();  // what is captured of a batch hangs together
      rest_.reset();
      ahead_.reset();
      staged_.forget();
    }

   private:
    template <class F>
    void run(std::optional<CapturedStep<R>>& part,
             F const& issue_part,
             std::source_location issued_at) {
      if (!is_warm_) {
        issue_part();
        return;
      }
      if (!part) {
        part.emplace(device_, issue_part);
      }
      part->replay(issued_at);
    }

    Device<R> device_;
    std::shared_ptr<StreamGroup<R>> first_;
    std::shared_ptr<StreamGroup<R>> main_;
    bool is_exact_;
    Inputs inputs_;
    detail::StagedBatch<R, Inputs, Prepared, Features, Result> staged_;
    bool is_warm_ = false;
    std::optional<Result> result_;
    std::optional<CapturedStep<R>> ahead_;
    std::optional<CapturedStep<R>> rest_;
    std::optional<CapturedStep<R>> update_;
  };

  Stages stages_;
  detail::TwoPlaces<Place, Result> places_;
};

template <CapturingRuntime R, class Make, class Prepare, class Embed, class Main, class Update>
CapturedTwoStage(Device<R>, TwoStageOptions<R>, Make, Prepare, Embed, Main, Update)
    -> CapturedTwoStage<R,
                        std::invoke_result_t<Make>,
                        detail::stage_result_t<Prepare, R, std::invoke_result_t<Make>>,
                        detail::stage_input_t<Main>,
                        detail::stage_result_t<Main, R, detail::stage_input_t<Main>>>;

}  // namespace msstream
