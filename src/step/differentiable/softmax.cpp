// SPDX-License-Identifier: Apache-2.0
#include "step/differentiable/recorded_mean.hpp"
#include "step/differentiable/refuse_result.hpp"
#include "step/recorded.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/activation.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/step/differentiable/loss.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {
namespace {

Floats recorded_softmax(AnyTape& tape,
                        Floats const& input,
                        Floats const& output,
                        std::source_location issued_at) {
  return recorded(
      tape,
      "softmax",
      input,
      output,
      [output, issued_at](auto const& gradient) {
        return softmax_gradient(output, gradient, issued_at);
      },
      issued_at);
}

}  // namespace

Floats softmax(AnyTape& tape, Floats const& input, std::source_location issued_at) {
  return recorded_softmax(tape, input, softmax(input, issued_at), issued_at);
}

Floats softmax(AnyTape& tape,
               Floats const& input,
               TensorOf<std::int64_t> const& lengths,
               std::source_location issued_at) {
  return recorded_softmax(tape, input, softmax(input, lengths, issued_at), issued_at);
}

Floats softmax_cross_entropy(AnyTape* tape,
                             AnyTensor const& logits,
                             TensorOf<std::int64_t> const& classes,
                             CrossEntropyOptions<AnyRuntime> const& options,
                             std::source_location issued_at) {
  constexpr char const* kOperation = "softmax_cross_entropy";
  refuse_result(
      tape, kOperation, "sample_weight", options.sample_weight ? &*options.sample_weight : nullptr);
  auto const result =
      counted_cross_entropy(kOperation, logits, classes, options, DType::float32, issued_at).result;
  if (tape == nullptr) {
    return result.losses;
  }
  if (options.sample_weight) {
    tape->note_inputs(*options.sample_weight);
  }
  return recorded(
      *tape,
      kOperation,
      logits,
      result.losses,
      [gradients = Floats(result.gradients), dtype = logits.dtype(), issued_at](
          Floats const& gradient) {
        auto const of_rows = gradient.reshaped({gradient.count(), 1});
        return cast(multiply(gradients, of_rows, issued_at).any(), dtype, issued_at);
      },
      issued_at);
}

Floats mean_softmax_cross_entropy(AnyTape* tape,
                                  AnyTensor const& logits,
                                  TensorOf<std::int64_t> const& classes,
                                  CrossEntropyOptions<AnyRuntime> const& options,
                                  std::source_location issued_at) {
  constexpr char const* kOperation = "mean_softmax_cross_entropy";
  refuse_result(
      tape, kOperation, "sample_weight", options.sample_weight ? &*options.sample_weight : nullptr);
  auto const [result, counted] =
      counted_cross_entropy(kOperation, logits, classes, options, DType::float32, issued_at);
  std::optional<Floats> divisor;
  if (counted) {
    divisor =
        options.sample_weight && options.reduction == LossReduction::weighted_mean
            ? sum_of_weights(*counted, 1.0F, issued_at)
            : clamp(sum(*counted, issued_at), 1.0F, std::numeric_limits<float>::max(), issued_at);
  }
  if (tape != nullptr && options.sample_weight) {
    tape->note_inputs(*options.sample_weight);
  }
  return recorded_mean(tape, kOperation, logits, result, divisor, issued_at);
}

}  // namespace msstream::ops::detail
