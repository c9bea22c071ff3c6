// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/element_losses.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/activation.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/tensor/issue.hpp>

#include <limits>
#include <source_location>

namespace msstream::ops::detail {

AnyLosses element_losses(ElementLosses const& of,
                         DType gradient_dtype,
                         std::source_location issued_at) {
  auto const& shape = of.inputs.shape();
  require(of.targets == nullptr || of.targets->shape() == shape,
          "{}: inputs {}, labels or targets {}; expected one shape",
          of.operation,
          shape,
          of.targets == nullptr ? shape : of.targets->shape());
  bool const is_bce = of.kind == kernels::LossKind::bce_with_logits;
  require(of.options.pos_weight >= 0.0F && (is_bce || of.options.pos_weight == 1.0F),
          "{}: a pos_weight of {}; expected {}",
          of.operation,
          of.options.pos_weight,
          is_bce ? "a number of at least 0" : "none, as only a binary cross-entropy has one");
  require(of.margin >= 0.0F, "{}: a margin of {}; expected at least 0", of.operation, of.margin);
  AnyLosses result{{of.inputs.device(), shape}, {of.inputs.device(), gradient_dtype, shape}};
  kernels::ElementLossArgs args{of.inputs.data(),
                                of.targets == nullptr ? nullptr : of.targets->data(),
                                result.losses.data(),
                                result.gradients.data(),
                                of.inputs.count(),
                                of.kind,
                                is_bce ? of.options.pos_weight : of.margin};
  args.dtype = of.inputs.dtype();
  args.gradient_dtype = gradient_dtype;
  auto read = reads(of.inputs);
  if (of.targets != nullptr) {
    read.add(*of.targets);
  }
  if (auto const& weight = of.options.weight) {
    auto const rows = shape.rank() == 0 ? 1 : shape[0];
    require(weight->shape() == shape || weight->shape() == Shape{rows} ||
                weight->shape() == Shape{rows, 1},
            "{}: weights {} for inputs {}; expected their shape, or one weight for each row",
            of.operation,
            weight->shape(),
            shape);
    args.weights = weight->data();
    args.elements_a_weight = args.count == 0 ? 1 : args.count / weight->count();
    read.add(*weight);
  }
  issue(
      of.operation,
      read,
      writes(result.losses, result.gradients),
      [args](auto stream) { kernels::element_losses(stream, args); },
      {},
      issued_at);
  return result;
}

AnyLosses bce_with_logits(AnyTensor const& logits,
                          Floats const& labels,
                          LossOptions<AnyRuntime> const& options,
                          std::source_location issued_at) {
  return element_losses(
      {"bce_with_logits", kernels::LossKind::bce_with_logits, logits, &labels, options},
      logits.dtype(),
      issued_at);
}

Floats mean_loss(Floats const& losses, std::source_location issued_at) {
  return losses.count() == 0 ? sum(losses, issued_at) : mean(losses, issued_at);
}

Floats sum_of_weights(Floats const& weights,
                      float elements_a_weight,
                      std::source_location issued_at) {
  auto const all = scale(sum(weights, issued_at), elements_a_weight, issued_at);
  return clamp(all, 0x1p-100F, std::numeric_limits<float>::max(), issued_at);
}

Floats scale_by_scalar(Floats const& input,
                       Floats const& scalar,
                       float factor,
                       std::source_location issued_at) {
  return {msstream::detail::OfKnownType(),
          scale_by_scalar(input, scalar, factor, DType::float32, issued_at)};
}

AnyTensor scale_by_scalar(Floats const& input,
                          Floats const& scalar,
                          float factor,
                          DType to,
                          std::source_location issued_at) {
  require(scalar.count() == 1, "scale_by_scalar: a scalar of shape {}", scalar.shape());
  AnyTensor output(input.device(), to, input.shape());
  issue(
      "scale_by_scalar",
      reads(input, scalar),
      writes(output),
      [source = input.data(),
       value = scalar.data(),
       factor,
       target = output.data(),
       count = input.count(),
       to](auto stream) {
        kernels::scale_by_scalar(stream, source, value, factor, target, count, to);
      },
      {},
      issued_at);
  return output;
}

}  // namespace msstream::ops::detail
