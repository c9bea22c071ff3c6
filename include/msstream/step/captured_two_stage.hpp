// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/captured_step.hpp>
#include <msstream/step/training_stages.hpp>
#include <msstream/tensor/publish.hpp>

#include <functional>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream {

/// A TwoStage whose stages are captured once and replayed.
///
///     CapturedTwoStage pipeline(
///         device, {.first = pool[1], .main = pool[0]},
///         [&] { return Inputs(device, batch_rows); },
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

  /// Like TwoStage::run(), for the batch that `fill(inputs)` writes into the inputs.
  template <class Fill>
  std::optional<Result> run(Fill const& fill,
                            std::source_location issued_at = std::source_location::current()) {
    return places_.run(fill, issued_at);
  }
  /// Like TwoStage::finish().
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
          first_(options.first),
          main_(options.main),
          is_exact_(options.staleness == Staleness::exact),
          inputs_(make()),
          staged_(device_, stages, options.staleness) {}

    template <class Fill>
    void begin(Fill const& fill, std::source_location issued_at) {
      issue_published(
          first_,
          [&] {
            fill(std::as_const(inputs_));
            run(
                ahead_, [&] { staged_.issue_ahead(inputs_); }, issued_at);
          },
          issued_at);
    }
    Result finish(std::source_location issued_at) {
      StreamScope const scope(main_, {}, issued_at);
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
      update_.reset();  // the captured parts of a batch depend on each other
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
    StreamGroup<R> first_;
    StreamGroup<R> main_;
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
