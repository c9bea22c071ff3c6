// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/capturing.hpp>
#include <msstream/step/training_stages.hpp>

#include <functional>
#include <memory>
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
  using StagedBatch = detail::StagedBatch<R, Inputs, Prepared, Features, Result>;
  using Stages = typename StagedBatch::Stages;

 public:
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

  /// Like TwoStage::run(), for the batch that `fill(inputs)` writes into the inputs.
  template <class Fill>
  std::optional<Result> run(Fill const& fill,
                            std::source_location issued_at = std::source_location::current()) {
    return result_of(any_.run(
        [&](auto& place) { fill(std::as_const(static_cast<Place&>(place).inputs)); }, issued_at));
  }
  /// Like TwoStage::finish().
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
