// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops {

/// The result of layer_norm(): the output, and for each row the numbers that the gradient needs.
template <Runtime R = DefaultRuntime>
struct LayerNormResult {
  Tensor<float, R> output;       ///< of the input's shape
  Tensor<float, R> means;        ///< [rows]
  Tensor<float, R> reciprocals;  ///< [rows], 1 / sqrt(variance + epsilon)
  /// The rounding errors of `means`, [rows]. If null, gradients treat `means` as exact.
  std::optional<Tensor<float, R>> mean_rests = std::nullopt;

  /// Converts to a result without a runtime type. For use by the library only.
  template <std::same_as<LayerNormResult<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {output, means, reciprocals, mean_rests};
  }
};

namespace detail {

template <Runtime R>
[[nodiscard]] LayerNormResult<R> typed(LayerNormResult<AnyRuntime> result) {
  return {typed<R>(std::move(result.output)),
          typed<R>(std::move(result.means)),
          typed<R>(std::move(result.reciprocals)),
          typed<R>(std::move(result.mean_rests))};
}

// The implementation of layer_norm(), compiled once for all runtimes.

[[nodiscard]] LayerNormResult<AnyRuntime> layer_norm(Floats const& input,
                                                     Floats const& weight,
                                                     Floats const& bias,
                                                     float epsilon,
                                                     std::source_location issued_at);

}  // namespace detail

/// Returns (input - mean) / sqrt(variance + epsilon) * weight + bias, over the last dimension of
/// input [..., width]; weight and bias [width]; float32. The variance of a row is the sum of its
/// squared deviations divided by width (Ba, Kiros, Hinton: Layer Normalization, 2016, section 3).
/// One launch; asynchronous; capture-safe; deterministic. Throws std::invalid_argument for bad
/// shapes, and unless epsilon is finite and not negative.
template <Runtime R>
[[nodiscard]] LayerNormResult<R> layer_norm(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    float epsilon = 1e-5F,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::layer_norm(input, weight, bias, epsilon, issued_at));
}

/// Selects the gradients of layer_norm() to compute. Nothing is launched for a gradient that is not
/// selected.
struct WantedOfLayerNorm {
  bool input = true;       ///< computes LayerNormGradients::input
  bool parameters = true;  ///< weight and bias
};
/// The gradients of layer_norm(). Null for a gradient that WantedOfLayerNorm does not select.
template <Runtime R = DefaultRuntime>
struct LayerNormGradients {
  std::optional<Tensor<float, R>> input;   ///< in the shape of the input
  std::optional<Tensor<float, R>> weight;  ///< [width]
  std::optional<Tensor<float, R>> bias;    ///< [width]
};

namespace detail {

template <Runtime R>
[[nodiscard]] LayerNormGradients<R> typed(LayerNormGradients<AnyRuntime> gradients) {
  return {typed<R>(std::move(gradients.input)),
          typed<R>(std::move(gradients.weight)),
          typed<R>(std::move(gradients.bias))};
}

// The implementation of layer_norm_gradient(), compiled once for all runtimes.

[[nodiscard]] LayerNormGradients<AnyRuntime> layer_norm_gradient(
    Floats const& input,
    Floats const& weight,
    LayerNormResult<AnyRuntime> const& result,
    Floats const& output_gradient,
    WantedOfLayerNorm wanted,
    std::source_location issued_at);

}  // namespace detail

/// Returns the gradients of layer_norm(), from its operands, its result and the output's gradient.
/// One launch for the input; one or two for weight and bias together. Deterministic; asynchronous;
/// capture-safe. Throws std::invalid_argument if the shapes do not fit.
template <Runtime R>
[[nodiscard]] LayerNormGradients<R> layer_norm_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    LayerNormResult<R> const& result,
    Tensor<float, R> const& output_gradient,
    WantedOfLayerNorm wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::layer_norm_gradient(input, weight, result, output_gradient, wanted, issued_at));
}

}  // namespace msstream::ops
