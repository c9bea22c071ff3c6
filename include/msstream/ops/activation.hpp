// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/normalize.hpp>

#include <optional>
#include <source_location>
#include <type_traits>

/// Activations and small functions of each element of a float32 tensor, with their gradients. Each
/// is one launch unless it says otherwise. Asynchronous; capture-safe; deterministic. relu(),
/// sigmoid() and scale() are in elementwise.hpp. A gradient is computed from the input, unless it
/// says otherwise, and the gradient of the output.
namespace msstream::ops {

namespace detail {

// The implementations of the functions of this header, compiled once for all runtimes.

[[nodiscard]] Floats tanh(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats tanh_gradient(Floats const& output,
                                   Floats const& output_gradient,
                                   std::source_location issued_at);
[[nodiscard]] Floats gelu(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats gelu_gradient(Floats const& input,
                                   Floats const& output_gradient,
                                   std::source_location issued_at);
[[nodiscard]] Floats gelu_tanh(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats gelu_tanh_gradient(Floats const& input,
                                        Floats const& output_gradient,
                                        std::source_location issued_at);
[[nodiscard]] Floats silu(Floats const& input, std::source_location issued_at);
[[nodiscard]] Floats silu_gradient(Floats const& input,
                                   Floats const& output_gradient,
                                   std::source_location issued_at);
[[nodiscard]] Floats clamp(Floats const& input,
                           float low,
                           float high,
                           std::source_location issued_at);
[[nodiscard]] Floats clamp_gradient(Floats const& input,
                                    float low,
                                    float high,
                                    Floats const& output_gradient,
                                    std::source_location issued_at);
[[nodiscard]] Floats add_scalar(Floats const& input, float term, std::source_location issued_at);
[[nodiscard]] Floats prelu(Floats const& input,
                           Floats const& weight,
                           std::source_location issued_at);
[[nodiscard]] OperandGradients<AnyRuntime> prelu_gradient(Floats const& input,
                                                          Floats const& weight,
                                                          Floats const& output_gradient,
                                                          WantedOperands wanted,
                                                          std::source_location issued_at);
[[nodiscard]] BatchNormResult<AnyRuntime> dice(Floats const& input,
                                               Floats const& weight,
                                               RunningStatistics<AnyRuntime> const& running,
                                               BatchNormOptions<AnyRuntime> const& options,
                                               std::source_location issued_at);
[[nodiscard]] Floats dice_inference(Floats const& input,
                                    Floats const& weight,
                                    RunningStatistics<AnyRuntime> const& running,
                                    BatchNormOptions<AnyRuntime> const& options,
                                    std::source_location issued_at);
[[nodiscard]] OperandGradients<AnyRuntime> dice_gradient(Floats const& input,
                                                         Floats const& weight,
                                                         Floats const& statistics,
                                                         Floats const& output_gradient,
                                                         WantedOperands wanted,
                                                         std::optional<Floats> const& mask,
                                                         std::source_location issued_at);

}  // namespace detail

/// Returns the hyperbolic tangent of each element.
template <Runtime R>
[[nodiscard]] Tensor<float, R> tanh(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::tanh(input, issued_at));
}
/// Returns the gradient of tanh(), from its output and the output's gradient.
template <Runtime R>
[[nodiscard]] Tensor<float, R> tanh_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::tanh_gradient(output, output_gradient, issued_at));
}

/// Returns x Φ(x) for each element x, with the distribution function Φ of the standard normal
/// distribution (Hendrycks, Gimpel: Gaussian Error Linear Units, 2016).
template <Runtime R>
[[nodiscard]] Tensor<float, R> gelu(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::gelu(input, issued_at));
}
/// Returns the gradient of gelu(), from its input and the gradient of its output.
template <Runtime R>
[[nodiscard]] Tensor<float, R> gelu_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::gelu_gradient(input, output_gradient, issued_at));
}
/// Returns x / 2 * (1 + tanh(sqrt(2 / π) (x + 0.044715 x³))) for each element x: the approximation
/// of gelu().
template <Runtime R>
[[nodiscard]] Tensor<float, R> gelu_tanh(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::gelu_tanh(input, issued_at));
}
/// Returns the gradient of gelu_tanh(), from its input and the gradient of its output.
template <Runtime R>
[[nodiscard]] Tensor<float, R> gelu_tanh_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::gelu_tanh_gradient(input, output_gradient, issued_at));
}

/// Returns x / (1 + exp(-x)) for each element x.
template <Runtime R>
[[nodiscard]] Tensor<float, R> silu(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::silu(input, issued_at));
}
/// Returns the gradient of silu(), from its input and the gradient of its output.
template <Runtime R>
[[nodiscard]] Tensor<float, R> silu_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::silu_gradient(input, output_gradient, issued_at));
}

/// Returns min(max(x, low), high) for each element x; NaN stays NaN. The derivative at the bounds
/// is taken as 1. Throws std::invalid_argument unless low <= high; they may be infinite.
template <Runtime R>
[[nodiscard]] Tensor<float, R> clamp(
    Tensor<float, R> const& input,
    float low,
    float high,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::clamp(input, low, high, issued_at));
}
/// Returns the gradient of clamp(), from its input: 0 where an element is outside [low, high].
template <Runtime R>
[[nodiscard]] Tensor<float, R> clamp_gradient(
    Tensor<float, R> const& input,
    float low,
    float high,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::clamp_gradient(input, low, high, output_gradient, issued_at));
}

/// Returns input + term, element by element. Its gradient is the gradient of the output. (scale()
/// multiplies by a number.)
template <Runtime R>
[[nodiscard]] Tensor<float, R> add_scalar(
    Tensor<float, R> const& input,
    float term,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add_scalar(input, term, issued_at));
}

/// Returns x for each element x above 0, and weight * x for the others: input [..., width], and a
/// weight [width] or of one element for all columns (He, Zhang, Ren, Sun: Delving Deep into
/// Rectifiers, 2015). Throws std::invalid_argument for bad shapes.
template <Runtime R>
[[nodiscard]] Tensor<float, R> prelu(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::prelu(input, weight, issued_at));
}
/// Returns the gradients of prelu() with respect to the input (left) and the weight (right). The
/// derivative at 0 is the weight. The gradient of the weight is added in float64. On CUDA up to
/// three launches, of which the first computes both.
template <Runtime R>
[[nodiscard]] OperandGradients<R> prelu_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& output_gradient,
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::prelu_gradient(input, weight, output_gradient, wanted, issued_at));
}

/// Returns x * (p + weight * (1 - p)) for each element x, with p = 1 / (1 + exp(-n)) of the element
/// n that batch_norm() without weight and bias gives (Zhou et al.: Deep Interest Network, 2018):
/// input
/// [..., width], and a weight [width] or of one element. Also updates the running statistics, as
/// batch_norm() does. Throws std::invalid_argument as batch_norm() does.
template <Runtime R>
[[nodiscard]] BatchNormResult<R> dice(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    RunningStatistics<R> const& running,
    BatchNormOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::dice(input, weight, running, options, issued_at));
}
/// Returns dice() with the running statistics in place of the batch's. One launch.
template <Runtime R>
[[nodiscard]] Tensor<float, R> dice_inference(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    RunningStatistics<R> const& running,
    BatchNormOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::dice_inference(input, weight, running, options, issued_at));
}

/// Returns the gradients of dice() with respect to the input (left), including those through the
/// statistics of the batch, and the weight (right), from the statistics of its result and the mask
/// of its options.
template <Runtime R>
[[nodiscard]] OperandGradients<R> dice_gradient(
    Tensor<float, R> const& input,
    Tensor<float, R> const& weight,
    Tensor<float, R> const& statistics,
    Tensor<float, R> const& output_gradient,
    WantedOperands wanted = {},
    std::type_identity_t<std::optional<Tensor<float, R>>> const& mask = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::dice_gradient(input, weight, statistics, output_gradient, wanted, mask, issued_at));
}

}  // namespace msstream::ops
