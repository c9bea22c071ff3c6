// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/optimizer.hpp"

#include <cmath>
#include <cstddef>
#include <span>

namespace msstream::ops::kernels::testing {

inline constexpr OptimizerKind kOptimizerKinds[] = {OptimizerKind::sgd,
                                                    OptimizerKind::momentum,
                                                    OptimizerKind::adagrad,
                                                    OptimizerKind::rowwise_adagrad,
                                                    OptimizerKind::adam};

[[nodiscard]] inline OptimizerRule rule_of(OptimizerKind kind) {
  return {.kind = kind, .learning_rate = 0.01F};
}

/// A reference for a weight and its optimizer state, in double, updated by the published rules.
struct ReferenceWeight {
  double weight;
  double first = 0;
  double second = 0;

  void move(OptimizerRule const& rule, double gradient, int step) {
    double const b1 = rule.beta1;
    double const b2 = rule.beta2;
    switch (rule.kind) {
      case OptimizerKind::sgd:
        weight -= rule.learning_rate * gradient;
        break;
      case OptimizerKind::momentum:
        first = b1 * first + gradient;
        weight -= rule.learning_rate * first;
        break;
      case OptimizerKind::adagrad:
      case OptimizerKind::rowwise_adagrad:  // as for a dense parameter
        first += gradient * gradient;
        weight -= rule.learning_rate * gradient / (std::sqrt(first) + rule.epsilon);
        break;
      case OptimizerKind::adam:
        first = b1 * first + (1 - b1) * gradient;
        second = b2 * second + (1 - b2) * gradient * gradient;
        weight -= rule.learning_rate * (first / (1 - std::pow(b1, step))) /
                  (std::sqrt(second / (1 - std::pow(b2, step))) + rule.epsilon);
        break;
    }
  }
};

/// Updates the weights of one row of a table by an optimizer rule. If the rule keeps one number of
/// state per row, every weight holds that number.
inline void move_row(std::span<ReferenceWeight> row,
                     OptimizerRule const& rule,
                     std::span<double const> gradients,
                     int step) {
  double squares = 0.0;
  for (double const gradient : gradients) {
    squares += gradient * gradient;
  }
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (rule.kind == OptimizerKind::rowwise_adagrad) {
      row[c].first += squares / static_cast<double>(row.size());
      row[c].weight -= rule.learning_rate * gradients[c] / (std::sqrt(row[c].first) + rule.epsilon);
    } else {
      row[c].move(rule, gradients[c], step);
    }
  }
}

}  // namespace msstream::ops::kernels::testing
