// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops {

namespace detail {

// The implementation of dense(), compiled once for all runtimes.

[[nodiscard]] Floats dense(Floats const& input,
                           Floats const& weight,
                           Floats const& bias,
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
/// float32, in the device's MatmulPrecision. CUDA uses cuBLASLt with the bias and the activation in
/// its epilogue; the host uses Eigen. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument if the shapes do not fit.
template <Runtime R>
[[nodiscard]] Tensor<float, R> dense(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    Activation activation = Activation::none,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::dense(input, weight, bias, activation, issued_at));
}

template <Runtime R = DefaultRuntime>
struct DenseGradients {
  std::optional<Tensor<float, R>> input;
  Tensor<float, R> weight;
  Tensor<float, R> bias;
};

namespace detail {

template <Runtime R>
[[nodiscard]] DenseGradients<R> typed(DenseGradients<AnyRuntime> gradients) {
  return {typed<R>(std::move(gradients.input)),
          typed<R>(std::move(gradients.weight)),
          typed<R>(std::move(gradients.bias))};
}

// The implementation of dense_gradient(), compiled once for all runtimes.

[[nodiscard]] DenseGradients<AnyRuntime> dense_gradient(Floats const& input,
                                                        Floats const& weight,
                                                        Floats const& output,
                                                        Activation activation,
                                                        Floats const& output_gradient,
                                                        bool with_input_gradient,
                                                        std::source_location issued_at);

}  // namespace detail

/// Returns the gradients of dense(), from its operands, its output and the output's gradient. The
/// gradient of the input is computed only if `with_input_gradient` is set. On CUDA, if the batch is
/// long and the weights are few, the sum over the batch is computed in parts, in a workspace.
/// Deterministic; asynchronous; capture-safe. Throws std::invalid_argument if the shapes do not
/// fit.
template <Runtime R>
[[nodiscard]] DenseGradients<R> dense_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& output,
    Activation activation,
    Tensor<float, R> const& output_gradient,
    bool with_input_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::dense_gradient(
      input, weight, output, activation, output_gradient, with_input_gradient, issued_at));
}

}  // namespace msstream::ops
