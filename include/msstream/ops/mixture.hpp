// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops {

/// A list of gates. Each gate is the list of the numbers of the experts that it mixes, in the order
/// of its logits. At most 16 gates and 128 choices of all gates together, among at most 64 experts.
using Gates = std::vector<std::vector<int>>;

/// Gates of a mixture of experts, and their logits: [batch, choices of all these gates], or [gates,
/// batch, choices] if each gate has the same number of choices.
template <Runtime R = DefaultRuntime>
struct GateLogits {
  Tensor<float, R> logits;  ///< before the softmax of each gate
  Gates gates;              ///< the experts of each gate, in the order of the logits

  /// Converts to gates without a runtime type. For use by the library only.
  template <std::same_as<GateLogits<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {logits, gates};
  }
};

template <Runtime R = DefaultRuntime>
struct Mixture {
  Tensor<float, R> output;                ///< [gates, batch, width]
  std::vector<Tensor<float, R>> weights;  ///< softmax of the logits, in the logits' shapes
};

namespace detail {

template <Runtime R>
[[nodiscard]] std::vector<GateLogits<AnyRuntime>> untyped(std::vector<GateLogits<R>> const& gates) {
  return {gates.begin(), gates.end()};
}
template <Runtime R>
[[nodiscard]] Mixture<R> typed(Mixture<AnyRuntime> mixture) {
  return {typed<R>(std::move(mixture.output)), typed<R>(std::move(mixture.weights))};
}

// The implementations of mix_experts(), compiled once for all runtimes.

[[nodiscard]] Mixture<AnyRuntime> mix_experts(std::vector<Floats> const& experts,
                                              std::vector<GateLogits<AnyRuntime>> const& gates,
                                              std::source_location issued_at);
[[nodiscard]] Mixture<AnyRuntime> mix_experts(std::vector<Floats> const& experts,
                                              Floats const& logits,
                                              Gates const& gates,
                                              std::source_location issued_at);

}  // namespace detail

/// Mixes the outputs of experts by gates, as in MMoE and PLE (Tang et al. 2020, section 4):
/// output[g] is the sum, over the experts that gate g mixes, of softmax(the gate's logits) times
/// the expert's output, row by row.
///
/// experts: tensors [batch, width] or [experts, batch, width]. Experts and gates are numbered
/// consecutively over their tensors. One launch; float32; deterministic; asynchronous;
/// capture-safe. Throws std::invalid_argument for shapes and numbers that do not fit.
template <Runtime R>
[[nodiscard]] Mixture<R> mix_experts(
    std::vector<Tensor<float, R>> const& experts,
    std::vector<GateLogits<R>> const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::mix_experts(detail::untyped(experts), detail::untyped(gates), issued_at));
}
/// Mixes the outputs of experts by gates whose logits are all in one tensor.
template <Runtime R>
[[nodiscard]] Mixture<R> mix_experts(
    std::vector<Tensor<float, R>> const& experts,
    Tensor<float, R> const& logits,
    Gates const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mix_experts(detail::untyped(experts), logits, gates, issued_at));
}

template <Runtime R = DefaultRuntime>
struct MixtureGradients {
  std::vector<std::optional<Tensor<float, R>>> experts;  ///< null where not wanted
  std::vector<Tensor<float, R>> logits;                  ///< one for each GateLogits, in its shape
};

namespace detail {

template <Runtime R>
[[nodiscard]] MixtureGradients<R> typed(MixtureGradients<AnyRuntime> gradients) {
  return {typed<R>(std::move(gradients.experts)), typed<R>(std::move(gradients.logits))};
}

// The implementation of mix_experts_gradient(), compiled once for all runtimes.

[[nodiscard]] MixtureGradients<AnyRuntime> mix_experts_gradient(
    std::vector<Floats> const& experts,
    std::vector<GateLogits<AnyRuntime>> const& weights,
    Floats const& output_gradient,
    std::vector<bool> const& wanted,
    std::source_location issued_at);

}  // namespace detail

/// Returns the gradients of mix_experts() with respect to all logits and to the experts that
/// `wanted` selects. `weights` has the gates of the forward call, with Mixture::weights in place of
/// the logits. Throws std::invalid_argument for shapes that do not fit.
template <Runtime R>
[[nodiscard]] MixtureGradients<R> mix_experts_gradient(
    std::vector<Tensor<float, R>> const& experts,
    std::vector<GateLogits<R>> const& weights,
    Tensor<float, R> const& output_gradient,
    std::vector<bool> const& wanted,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mix_experts_gradient(
      detail::untyped(experts), detail::untyped(weights), output_gradient, wanted, issued_at));
}

}  // namespace msstream::ops
