// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops {

namespace detail {

// The implementation of dense(), compiled once for all types and runtimes.

[[nodiscard]] AnyTensor dense(AnyTensor const& input,
                              AnyTensor const& weight,
                              AnyTensor const& bias,
                              Activation activation,
                              std::source_location issued_at);

}  // namespace detail

/// Returns activation(input · weight + bias): input [batch, inputs], weight [inputs, outputs], bias
/// [outputs] → [batch, outputs].
///
/// Computes several layers of one size in one launch if the operands are stacked: weight [layers,
/// inputs, outputs], bias [layers, outputs] → [layers, batch, outputs], from input [layers, batch,
/// inputs], or from one input [batch, inputs] for all layers. At most 65,535 layers.
///
/// T is float32, in the device's MatmulPrecision, or float16 or bfloat16, with sums in float32 that
/// are rounded once. CUDA uses cuBLASLt with the bias and the activation in its epilogue; the host
/// uses Eigen. Deterministic; asynchronous; capture-safe. Throws std::invalid_argument if the
/// shapes do not fit.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> dense(Tensor<T, R> const& input,
                                 Tensor<T, R> const& weight,
                                 Tensor<T, R> const& bias,
                                 Activation activation = Activation::none,
                                 std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::dense(input.any(), weight.any(), bias.any(), activation, issued_at)};
}

/// The gradients of dense(): that of the input in the input's type, and those of weight and bias in
/// float32.
template <Runtime R = DefaultRuntime, RealElement T = float>
struct DenseGradients {
  std::optional<Tensor<T, R>> input;  ///< [batch, inputs]; null if it is not wanted
  Tensor<float, R> weight;            ///< [inputs, outputs]
  Tensor<float, R> bias;              ///< [outputs]
};

namespace detail {

struct AnyDenseGradients {
  std::optional<AnyTensor> input;
  Floats weight;
  Floats bias;
};

// The implementation of dense_gradient(), compiled once for all types and runtimes.

[[nodiscard]] AnyDenseGradients dense_gradient(AnyTensor const& input,
                                               AnyTensor const& weight,
                                               AnyTensor const& output,
                                               Activation activation,
                                               AnyTensor const& output_gradient,
                                               bool with_input_gradient,
                                               std::source_location issued_at);

}  // namespace detail

/// Returns the gradients of dense(), from its operands, its output and the output's gradient. The
/// gradient of the input is computed only if `with_input_gradient` is set. On CUDA, if the batch is
/// long and the weights are few, the sum over the batch is computed in parts, in a workspace.
/// Deterministic; asynchronous; capture-safe. Throws std::invalid_argument if the shapes do not
/// fit.
template <RealElement T, Runtime R>
[[nodiscard]] DenseGradients<R, T> dense_gradient(
    Tensor<T, R> const& input,
    Tensor<T, R> const& weight,
    Tensor<T, R> const& output,
    Activation activation,
    Tensor<T, R> const& output_gradient,
    bool with_input_gradient,
    std::source_location issued_at = std::source_location::current()) {
  auto gradients = detail::dense_gradient(input.any(),
                                          weight.any(),
                                          output.any(),
                                          activation,
                                          output_gradient.any(),
                                          with_input_gradient,
                                          issued_at);
  DenseGradients<R, T> result{{},
                              detail::typed<R>(std::move(gradients.weight)),
                              detail::typed<R>(std::move(gradients.bias))};
  if (gradients.input) {
    result.input.emplace(msstream::detail::OfKnownType(), *std::move(gradients.input));
  }
  return result;
}

}  // namespace msstream::ops
