// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/mixture.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstddef>
#include <source_location>
#include <vector>

namespace msstream::ops {

/// Like ops::mix_experts(), but the tape records the backward. Returns only the output: [gates,
/// batch, width].
template <Runtime R>
[[nodiscard]] Tensor<float, R> mix_experts(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& experts,
    std::vector<GateLogits<R>> const& gates,
    std::source_location issued_at = std::source_location::current()) {
  auto const mixture = mix_experts(experts, gates, issued_at);
  tape.record(
      "mix_experts",
      mixture.output,
      [experts, gates, weights = mixture.weights, issued_at](GradientTape<R>& playing,
                                                             Tensor<float, R> const& gradient) {
        std::vector<bool> wanted;
        wanted.reserve(experts.size());
        for (auto const& expert : experts) {
          wanted.push_back(playing.wants_gradient(expert));
        }
        auto by_weight = gates;
        for (std::size_t i = 0; i < gates.size(); ++i) {
          by_weight[i].logits = weights[i];
        }
        auto const gradients =
            mix_experts_gradient(experts, by_weight, gradient, wanted, issued_at);
        for (std::size_t i = 0; i < experts.size(); ++i) {
          if (gradients.experts[i]) {
            playing.add_gradient(experts[i], *gradients.experts[i], issued_at);
          }
        }
        for (std::size_t i = 0; i < gates.size(); ++i) {
          playing.add_gradient(gates[i].logits, gradients.logits[i], issued_at);
        }
      },
      issued_at);
  return mixture.output;
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> mix_experts(
    GradientTape<R>& tape,
    std::vector<Tensor<float, R>> const& experts,
    Tensor<float, R> const& logits,
    Gates const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return mix_experts(tape, experts, std::vector<GateLogits<R>>{{logits, gates}}, issued_at);
}

}  // namespace msstream::ops
