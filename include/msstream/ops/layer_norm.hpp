// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/layer_norm.hpp>
#include <msstream/ops/workspace.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops {

/// The result of layer_norm(): the output, and for each row the numbers that the gradient needs.
template <Runtime R = DefaultRuntime>
struct LayerNormResult {
  Tensor<float, R> output;       ///< of the input's shape
  Tensor<float, R> means;        ///< [rows]
  Tensor<float, R> reciprocals;  ///< [rows], 1 / sqrt(variance + epsilon)
  /// [rows]: the rounding errors of `means`. If not set, gradients treat `means` as exact.
  std::optional<Tensor<float, R>> mean_rests = std::nullopt;
};

namespace detail {

/// Throws std::invalid_argument unless `input` is [..., width] with width > 0, and gain and shift
/// are [width]. Returns the number of rows.
inline std::int64_t require_layer_norm(char const* operation,
                                       Shape const& input,
                                       Shape const& gain,
                                       Shape const& shift) {
  auto const rank = input.rank();
  auto const width = rank > 0 ? input[rank - 1] : 0;
  require(width > 0 && gain.count() == width && shift.count() == width,
          operation,
          ": input ",
          input,
          ", gain ",
          gain,
          ", shift ",
          shift,
          "; expected [..., width] and twice [width]");
  return input.count() / width;
}

}  // namespace detail

/// Returns (input - mean) / sqrt(variance + epsilon) * gain + shift, over the last dimension of
/// input [..., width]; gain and shift [width]; float32. The variance of a row is the sum of its
/// squared deviations divided by width (Ba, Kiros, Hinton: Layer Normalization, 2016, section 3).
/// One launch; asynchronous; capture-safe; deterministic. Throws std::invalid_argument for bad
/// shapes, and unless epsilon is finite and not negative.
template <Runtime R>
[[nodiscard]] LayerNormResult<R> layer_norm(
    Tensor<float, R> const& input,
    Tensor<float, R> const& gain,
    Tensor<float, R> const& shift,
    float epsilon = 1e-5F,
    std::source_location issued_at = std::source_location::current()) {
  auto const rows =
      detail::require_layer_norm("layer_norm", input.shape(), gain.shape(), shift.shape());
  require(std::isfinite(epsilon) && epsilon >= 0.0F, "layer_norm: epsilon ", epsilon);
  auto const& device = input.device();
  LayerNormResult<R> result{{device, input.shape()}, {device, {rows}}, {device, {rows}}};
  auto const& mean_rests = result.mean_rests.emplace(device, Shape{rows});
  kernels::LayerNormArgs const args{input.data(),
                                    gain.data(),
                                    shift.data(),
                                    result.output.data(),
                                    result.means.data(),
                                    result.reciprocals.data(),
                                    rows,
                                    gain.count(),
                                    epsilon,
                                    mean_rests.data()};
  issue(
      "layer_norm",
      reads(input, gain, shift),
      writes(result.output, result.means, result.reciprocals, mean_rests),
      [args](auto stream) { kernels::layer_norm(stream, args); },
      {},
      issued_at);
  return result;
}

/// Selects the gradients of layer_norm() to compute. Nothing is launched for a gradient that is not
/// selected.
struct WantedOfLayerNorm {
  bool input = true;
  bool parameters = true;  ///< gain and shift
};
/// The gradients of layer_norm(). Null for a gradient that WantedOfLayerNorm does not select.
template <Runtime R = DefaultRuntime>
struct LayerNormGradients {
  std::optional<Tensor<float, R>> input;
  std::optional<Tensor<float, R>> gain;   ///< [width]
  std::optional<Tensor<float, R>> shift;  ///< [width]
};

/// Returns the gradients of layer_norm(), from its operands, its result and the output's gradient.
/// One launch for the input; one or two for gain and shift together. Deterministic; asynchronous;
/// capture-safe. Throws std::invalid_argument if the shapes do not fit.
template <Runtime R>
[[nodiscard]] LayerNormGradients<R> layer_norm_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& gain,
    LayerNormResult<R> const& result,
    Tensor<float, R> const& output_gradient,
    WantedOfLayerNorm wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  auto const rows =
      detail::require_layer_norm("layer_norm_gradient", input.shape(), gain.shape(), gain.shape());
  auto const& mean_rests = result.mean_rests ? *result.mean_rests : result.means;
  auto const* const rests = result.mean_rests ? mean_rests.data() : nullptr;
  require(output_gradient.shape() == input.shape() && result.means.count() == rows &&
              result.reciprocals.count() == rows && mean_rests.count() == rows,
          "layer_norm_gradient: input ",
          input.shape(),
          ", output gradient ",
          output_gradient.shape(),
          ", means ",
          result.means.shape(),
          ", reciprocals ",
          result.reciprocals.shape(),
          ", rests of the means ",
          mean_rests.shape());
  auto const& device = input.device();
  auto const width = gain.count();
  LayerNormGradients<R> gradients;
  if (wanted.input) {
    gradients.input.emplace(device, input.shape());
    kernels::LayerNormInputGradientArgs const args{input.data(),
                                                   gain.data(),
                                                   result.means.data(),
                                                   result.reciprocals.data(),
                                                   output_gradient.data(),
                                                   gradients.input->data(),
                                                   rows,
                                                   width,
                                                   rests};
    issue(
        "layer_norm_input_gradient",
        reads(input, gain, result.means, result.reciprocals, mean_rests, output_gradient),
        writes(*gradients.input),
        [args](auto stream) { kernels::layer_norm_input_gradient(stream, args); },
        {},
        issued_at);
  }
  if (wanted.parameters) {
    gradients.gain.emplace(device, Shape{width});
    gradients.shift.emplace(device, Shape{width});
    detail::Workspace<R> const workspace(
        device, kernels::layer_norm_workspace_bytes(detail::size_query<R>(*device), rows, width));
    kernels::LayerNormParameterGradientArgs const args{input.data(),
                                                       result.means.data(),
                                                       result.reciprocals.data(),
                                                       output_gradient.data(),
                                                       rows,
                                                       width,
                                                       workspace.data(),
                                                       gradients.gain->data(),
                                                       gradients.shift->data(),
                                                       rests};
    issue(
        "layer_norm_parameter_gradient",
        reads(input, result.means, result.reciprocals, mean_rests, output_gradient),
        workspace.with(writes(*gradients.gain, *gradients.shift)),
        [args](auto stream) { kernels::layer_norm_parameter_gradient(stream, args); },
        {},
        issued_at);
  }
  return gradients;
}

}  // namespace msstream::ops
