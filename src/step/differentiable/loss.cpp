// SPDX-License-Identifier: Apache-2.0
#include "elementwise/broadcast_plan.hpp"
#include "ops/elementwise/element_losses.hpp"
#include "step/differentiable/recorded_mean.hpp"
#include "step/differentiable/refuse_result.hpp"
#include "step/recorded.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/step/differentiable/elementwise.hpp>
#include <msstream/step/differentiable/loss.hpp>
#include <msstream/step/differentiable/mixed.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops::detail {

Floats recorded_mean(AnyTape* tape,
                     char const* operation,
                     AnyTensor const& inputs,
                     AnyLosses const& each,
                     std::optional<Floats> const& divisor,
                     std::source_location issued_at) {
  auto mean = divisor ? divide(sum(each.losses, issued_at), *divisor, issued_at)
                      : mean_loss(each.losses, issued_at);
  if (tape == nullptr) {
    return mean;
  }
  auto const count = each.losses.count();
  auto const factor = divisor || count == 0 ? 1.0F : 1.0F / static_cast<float>(count);
  return recorded(
      *tape,
      operation,
      inputs,
      std::move(mean),
      [gradients = Floats(each.gradients), divisor, factor, dtype = inputs.dtype(), issued_at](
          Floats const& gradient) {
        auto const of_each = divisor ? divide(gradient, *divisor, issued_at) : gradient;
        return scale_by_scalar(gradients, of_each, factor, dtype, issued_at);
      },
      issued_at);
}

namespace {

/// Returns the mean of losses of elements, which is recorded if there is a tape.
[[nodiscard]] Floats mean_of(AnyTape* tape,
                             ElementLosses const& of,
                             std::source_location issued_at) {
  refuse_result(tape, of.operation, "labels", of.targets);
  refuse_result(tape, of.operation, "weight", of.options.weight ? &*of.options.weight : nullptr);
  auto const result = element_losses(of, DType::float32, issued_at);
  auto const count = result.losses.count();
  std::optional<Floats> divisor;
  if (auto const& weight = of.options.weight;
      weight && of.options.reduction == LossReduction::weighted_mean) {
    auto const each = count == 0 ? 1 : count / weight->count();
    divisor = sum_of_weights(*weight, static_cast<float>(each), issued_at);
  }
  if (tape != nullptr && of.targets != nullptr) {
    tape->note_inputs(*of.targets);
  }
  if (tape != nullptr && of.options.weight) {
    tape->note_inputs(*of.options.weight);
  }
  return recorded_mean(tape, of.operation, of.inputs, result, divisor, issued_at);
}

/// Returns the mean loss of the differences of scores that should be positive.
[[nodiscard]] Floats mean_of_pairs(AnyTape* tape,
                                   char const* operation,
                                   kernels::LossKind kind,
                                   AnyTensor const& positive_scores,
                                   AnyTensor const& negative_scores,
                                   float margin,
                                   LossOptions<AnyRuntime> const& options,
                                   std::source_location issued_at) {
  // The difference of two near scores would lose its digits in half precision.
  Floats const positives(cast(tape, positive_scores, DType::float32, issued_at));
  Floats const negatives(cast(tape, negative_scores, DType::float32, issued_at));
  // Broadcasting [n] beside [n, 1] would make a pair of each positive and each negative.
  require(positives.shape().rank() == negatives.shape().rank() &&
              kernels::broadcast_shape(positives.shape(), negatives.shape()).has_value(),
          "{}: positives {} and negatives {}; expected equally many dimensions, and sizes that are "
          "equal or 1",
          operation,
          positives.shape(),
          negatives.shape());
  auto const difference = tape == nullptr ? subtract(positives, negatives, issued_at)
                                          : subtract(*tape, positives, negatives, issued_at);
  return mean_of(tape, {operation, kind, difference.any(), nullptr, options, margin}, issued_at);
}

}  // namespace

Floats bce_with_logits(AnyTape* tape,
                       AnyTensor const& logits,
                       Floats const& labels,
                       LossOptions<AnyRuntime> const& options,
                       std::source_location issued_at) {
  constexpr char const* kOperation = "bce_with_logits";
  refuse_result(tape, kOperation, "labels", &labels);
  refuse_result(tape, kOperation, "weight", options.weight ? &*options.weight : nullptr);
  auto const result =
      element_losses({kOperation, kernels::LossKind::bce_with_logits, logits, &labels, options},
                     DType::float32,
                     issued_at);
  if (tape == nullptr) {
    return result.losses;
  }
  tape->note_inputs(labels);
  return recorded(
      *tape,
      kOperation,
      logits,
      result.losses,
      [gradients = Floats(result.gradients), dtype = logits.dtype(), issued_at](
          Floats const& gradient) {
        return cast(multiply(gradients, gradient, issued_at).any(), dtype, issued_at);
      },
      issued_at);
}

Floats mean_bce_with_logits(AnyTape* tape,
                            AnyTensor const& logits,
                            Floats const& labels,
                            LossOptions<AnyRuntime> const& options,
                            std::source_location issued_at) {
  return mean_of(
      tape,
      {"mean_bce_with_logits", kernels::LossKind::bce_with_logits, logits, &labels, options},
      issued_at);
}

Floats mse_loss(AnyTape* tape,
                AnyTensor const& predictions,
                Floats const& targets,
                LossOptions<AnyRuntime> const& options,
                std::source_location issued_at) {
  if (tape != nullptr && tape->is_result(targets.any()) && tape->wants_gradient(targets.any())) {
    require(predictions.shape() == targets.shape(),
            "mse_loss: predictions {} and targets {}; expected equal shapes",
            predictions.shape(),
            targets.shape());
    Floats const wide(cast(tape, predictions, DType::float32, issued_at));
    auto const difference = subtract(*tape, wide, targets, issued_at);
    auto const zeros = subtract(targets, targets, issued_at);
    return mean_of(
        tape,
        {"mse_loss", kernels::LossKind::squared_error, difference.any(), &zeros, options},
        issued_at);
  }
  return mean_of(tape,
                 {"mse_loss", kernels::LossKind::squared_error, predictions, &targets, options},
                 issued_at);
}

Floats hinge_loss(AnyTape* tape,
                  AnyTensor const& logits,
                  Floats const& labels,
                  float margin,
                  LossOptions<AnyRuntime> const& options,
                  std::source_location issued_at) {
  return mean_of(
      tape, {"hinge_loss", kernels::LossKind::hinge, logits, &labels, options, margin}, issued_at);
}

Floats bpr_loss(AnyTape* tape,
                AnyTensor const& positives,
                AnyTensor const& negatives,
                LossOptions<AnyRuntime> const& options,
                std::source_location issued_at) {
  return mean_of_pairs(tape,
                       "bpr_loss",
                       kernels::LossKind::bce_with_logits,
                       positives,
                       negatives,
                       0.0F,
                       options,
                       issued_at);
}

Floats margin_ranking_loss(AnyTape* tape,
                           AnyTensor const& positives,
                           AnyTensor const& negatives,
                           float margin,
                           LossOptions<AnyRuntime> const& options,
                           std::source_location issued_at) {
  return mean_of_pairs(tape,
                       "margin_ranking_loss",
                       kernels::LossKind::hinge,
                       positives,
                       negatives,
                       margin,
                       options,
                       issued_at);
}

}  // namespace msstream::ops::detail
