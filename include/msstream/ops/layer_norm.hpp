// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops {

namespace detail {

/// The result of layer_norm(), without types.
struct AnyLayerNormResult {
  AnyTensor output;
  Floats means;
  Floats reciprocals;
  std::optional<Floats> mean_rests;
};

}  // namespace detail

/// The result of layer_norm(): the output, and for each row the numbers that the gradient needs.
template <Runtime R = DefaultRuntime, RealElement T = float>
struct LayerNormResult {
  Tensor<T, R> output;           ///< of the input's shape
  Tensor<float, R> means;        ///< [rows]
  Tensor<float, R> reciprocals;  ///< [rows], 1 / sqrt(variance + epsilon)
  /// The rounding errors of `means`, [rows]. If null, gradients treat `means` as exact.
  std::optional<Tensor<float, R>> mean_rests = std::nullopt;

  /// Converts to a result without types. For use by the library only.
  template <std::same_as<detail::AnyLayerNormResult> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {output.any(), means, reciprocals, mean_rests};
  }
};

namespace detail {

// The implementation of layer_norm(), compiled once for all types and runtimes.

[[nodiscard]] AnyLayerNormResult layer_norm(AnyTensor const& input,
                                            Floats const& weight,
                                            Floats const& bias,
                                            float epsilon,
                                            std::source_location issued_at);

}  // namespace detail

/// Returns (input - mean) / sqrt(variance + epsilon) * weight + bias, over the last dimension of
/// input [..., width]; weight and bias [width]. The variance of a row is the sum of its squared
/// deviations divided by width (Ba, Kiros, Hinton: Layer Normalization, 2016, section 3).
///
/// T is float32, float16 or bfloat16. Weight, bias, statistics and sums are float32 in any case;
/// the output is rounded once. One launch; asynchronous; capture-safe; deterministic. Throws
/// std::invalid_argument for bad shapes, and unless epsilon is finite and not negative.
template <RealElement T, Runtime R>
[[nodiscard]] LayerNormResult<R, T> layer_norm(
    Tensor<T, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& bias,
    float epsilon = 1e-5F,
    std::source_location issued_at = std::source_location::current()) {
  auto result = detail::layer_norm(input.any(), weight, bias, epsilon, issued_at);
  return {{msstream::detail::OfKnownType(), std::move(result.output)},
          detail::typed<R>(std::move(result.means)),
          detail::typed<R>(std::move(result.reciprocals)),
          detail::typed<R>(std::move(result.mean_rests))};
}

/// Selects the gradients of layer_norm() to compute. Nothing is launched for a gradient that is not
/// selected.
struct WantedOfLayerNorm {
  bool input = true;       ///< computes LayerNormGradients::input
  bool parameters = true;  ///< weight and bias
};
/// The gradients of layer_norm(). Null for a gradient that WantedOfLayerNorm does not select.
template <Runtime R = DefaultRuntime, RealElement T = float>
struct LayerNormGradients {
  std::optional<Tensor<T, R>> input;       ///< in the shape of the input
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

/// The gradients of layer_norm(), that of the input in the input's type.
struct AnyLayerNormGradients {
  std::optional<AnyTensor> input;
  std::optional<Floats> weight;
  std::optional<Floats> bias;
};

// The implementation of layer_norm_gradient(), compiled once for all types and runtimes.

[[nodiscard]] AnyLayerNormGradients layer_norm_gradient(AnyTensor const& input,
                                                        Floats const& weight,
                                                        AnyLayerNormResult const& result,
                                                        AnyTensor const& output_gradient,
                                                        WantedOfLayerNorm wanted,
                                                        std::source_location issued_at);

}  // namespace detail

/// Returns the gradients of layer_norm(), from its operands, its result and the output's gradient:
/// that of the input in the input's type, rounded once, and those of weight and bias in float32.
/// One launch for the input; one or two for weight and bias, which compute that of the input too if
/// rows have at most 8,192 elements. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument if the shapes do not fit.
template <RealElement T, Runtime R>
[[nodiscard]] LayerNormGradients<R, T> layer_norm_gradient(
    Tensor<T, R> const& input,
    Tensor<float, R> const& weight,
    LayerNormResult<R, T> const& result,
    Tensor<T, R> const& output_gradient,
    WantedOfLayerNorm wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  auto gradients = detail::layer_norm_gradient(
      input.any(), weight, result, output_gradient.any(), wanted, issued_at);
  LayerNormGradients<R, T> typed{{},
                                 detail::typed<R>(std::move(gradients.weight)),
                                 detail::typed<R>(std::move(gradients.bias))};
  if (gradients.input) {
    typed.input.emplace(msstream::detail::OfKnownType(), *std::move(gradients.input));
  }
  return typed;
}

}  // namespace msstream::ops
