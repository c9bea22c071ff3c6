// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/optimizer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::testing {

/// The rules that treat each weight alone.
inline constexpr ops::OptimizerKind kOptimizerKinds[] = {ops::OptimizerKind::sgd,
                                                         ops::OptimizerKind::momentum,
                                                         ops::OptimizerKind::adagrad,
                                                         ops::OptimizerKind::adam};

/// One weight with its state in double, moved as the published rules say.
struct ReferenceWeight {
  double weight;
  double first = 0;
  double second = 0;

  void move(ops::OptimizerRule const& rule, double gradient, int step) {
    double const b1 = rule.beta1;
    double const b2 = rule.beta2;
    switch (rule.kind) {
      case ops::OptimizerKind::sgd:
        weight -= rule.learning_rate * gradient;
        break;
      case ops::OptimizerKind::momentum:
        first = b1 * first + gradient;
        weight -= rule.learning_rate * first;
        break;
      case ops::OptimizerKind::adagrad:
      case ops::OptimizerKind::rowwise_adagrad:  // of a dense parameter
        first += gradient * gradient;
        weight -= rule.learning_rate * gradient / (std::sqrt(first) + rule.epsilon);
        break;
      case ops::OptimizerKind::adam:
        first = b1 * first + (1 - b1) * gradient;
        second = b2 * second + (1 - b2) * gradient * gradient;
        weight -= rule.learning_rate * (first / (1 - std::pow(b1, step))) /
                  (std::sqrt(second / (1 - std::pow(b2, step))) + rule.epsilon);
        break;
    }
  }
};
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
/// Moves the weights from `begin` on, as many as there are gradients.
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
