// SPDX-License-Identifier: Apache-2.0
#include "ops/dense/any_mixture.hpp"

#include <msstream/ops/mixture.hpp>
#include <msstream/step/differentiable/layers.hpp>
#include <msstream/step/differentiable/mixed.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstddef>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {

AnyTensor mix_any_experts(AnyTape* tape,
                          std::vector<AnyTensor> const& experts,
                          std::vector<GateLogits<AnyRuntime>> const& gates,
                          std::source_location issued_at) {
  auto mixture = mix_experts(experts, gates, issued_at);
  if (tape == nullptr) {
    return mixture.output;
  }
  for (auto const& expert : experts) {
    tape->note_input(expert);
  }
  for (auto const& gate : gates) {
    tape->note_inputs(gate.logits);
  }
  tape->record_any(
      "mix_experts",
      mixture.output,
      [experts, gates, weights = std::move(mixture.weights), issued_at](AnyTape& playing,
                                                                        AnyTensor const& gradient) {
        std::vector<bool> wanted;
        wanted.reserve(experts.size());
        for (auto const& expert : experts) {
          wanted.push_back(playing.wants_gradient(expert));
        }
        auto by_weight = gates;
        for (std::size_t i = 0; i < gates.size(); ++i) {
          by_weight[i].logits = weights[i];
        }
        auto gradients = mix_experts_gradient(experts, by_weight, gradient, wanted, issued_at);
        for (std::size_t i = 0; i < experts.size(); ++i) {
          if (gradients.experts[i]) {
            playing.add_gradient(experts[i], *std::move(gradients.experts[i]), issued_at);
          }
        }
        for (std::size_t i = 0; i < gates.size(); ++i) {
          playing.add_gradient(gates[i].logits, gradients.logits[i], issued_at);
        }
      },
      issued_at);
  return mixture.output;
}

Floats mix_experts(AnyTape& tape,
                   std::vector<Floats> const& experts,
                   std::vector<GateLogits<AnyRuntime>> const& gates,
                   std::source_location issued_at) {
  std::vector<AnyTensor> any;
  for (auto const& expert : experts) {
    any.push_back(expert.any());
  }
  return Floats(mix_any_experts(&tape, any, gates, issued_at));
}

Floats mix_experts(AnyTape& tape,
                   std::vector<Floats> const& experts,
                   Floats const& logits,
                   Gates const& gates,
                   std::source_location issued_at) {
  return mix_experts(
      tape, experts, std::vector<GateLogits<AnyRuntime>>{{logits, gates}}, issued_at);
}

}  // namespace msstream::ops::detail
