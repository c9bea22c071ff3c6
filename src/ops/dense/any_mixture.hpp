// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/mixture.hpp>

#include <optional>
#include <source_location>
#include <vector>

/// Mixtures of experts of float32, float16 or bfloat16. Logits and weights are float32.
namespace msstream::ops::detail {

struct AnyMixture {
  AnyTensor output;  ///< [gates, batch, width], of the type of the experts
  std::vector<Floats> weights;
};
struct AnyMixtureGradients {
  std::vector<std::optional<AnyTensor>> experts;  ///< null where not wanted
  std::vector<Floats> logits;
};

/// Computes mix_experts(). Sums are float32, and the output is rounded once.
[[nodiscard]] AnyMixture mix_experts(std::vector<AnyTensor> const& experts,
                                     std::vector<GateLogits<AnyRuntime>> const& gates,
                                     std::source_location issued_at);
/// Computes mix_experts_gradient(). Gradients of experts are rounded once.
[[nodiscard]] AnyMixtureGradients mix_experts_gradient(
    std::vector<AnyTensor> const& experts,
    std::vector<GateLogits<AnyRuntime>> const& weights,
    AnyTensor const& output_gradient,
    std::vector<bool> const& wanted,
    std::source_location issued_at);

}  // namespace msstream::ops::detail
