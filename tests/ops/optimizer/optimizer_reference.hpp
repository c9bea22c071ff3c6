// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/optimizer/optimizer_reference.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::testing {

/// The optimizers that update each weight independently of all others.
inline constexpr ops::OptimizerKind kOptimizerKinds[] = {ops::OptimizerKind::sgd,
                                                         ops::OptimizerKind::momentum,
                                                         ops::OptimizerKind::adagrad,
                                                         ops::OptimizerKind::adam};

using ops::kernels::testing::ReferenceWeight;
using ReferenceWeights = std::vector<ReferenceWeight>;

[[nodiscard]] inline ReferenceWeights references_of(std::vector<float> const& weights) {
  ReferenceWeights out;
  for (float const weight : weights) {
    out.push_back({weight});
  }
  return out;
}
[[nodiscard]] inline std::vector<double> weights_of(ReferenceWeights const& references) {
  std::vector<double> out;
  for (auto const& reference : references) {
    out.push_back(reference.weight);
  }
  return out;
}
/// Updates reference weights, one for each gradient, beginning with the weight at index `begin`.
inline void move(ReferenceWeights& references,
                 ops::OptimizerRule const& rule,
                 std::vector<double> const& gradients,
                 int step,
                 std::int64_t begin) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    references[static_cast<std::size_t>(begin) + i].move(rule, gradients[i], step);
  }
}

}  // namespace msstream::testing
