// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace msstream::ops::kernels::testing {

inline constexpr OptimizerKind kOptimizerKinds[] = {OptimizerKind::sgd,
                                                    OptimizerKind::momentum,
                                                    OptimizerKind::adagrad,
                                                    OptimizerKind::rowwise_adagrad,
                                                    OptimizerKind::adam};

inline constexpr OptimizerKind kAllOptimizerKinds[] = {OptimizerKind::sgd,
                                                       OptimizerKind::momentum,
                                                       OptimizerKind::adagrad,
                                                       OptimizerKind::rowwise_adagrad,
                                                       OptimizerKind::adam,
                                                       OptimizerKind::adamw,
                                                       OptimizerKind::lamb,
                                                       OptimizerKind::ftrl,
                                                       OptimizerKind::rmsprop,
                                                       OptimizerKind::lion,
                                                       OptimizerKind::partial_rowwise_adam};

[[nodiscard]] inline bool has_first(OptimizerKind kind) {
  return kind != OptimizerKind::sgd;
}
[[nodiscard]] inline bool has_second(OptimizerKind kind) {
  return kind == OptimizerKind::adam || kind == OptimizerKind::adamw ||
         kind == OptimizerKind::lamb || kind == OptimizerKind::ftrl ||
         kind == OptimizerKind::partial_rowwise_adam;
}

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
      default:
        FAIL() << "follow_the_paper() has the other rules";
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

/// Weights that a rule updates together, a row of a table or a dense parameter, with their state in
/// double.
struct ReferenceRow {
  std::vector<double> weights;
  std::vector<double> first = std::vector<double>(weights.size(), 0.0);
  std::vector<double> second = std::vector<double>(weights.size(), 0.0);
  /// Whether the sign of a step of Lion has been a matter of rounding: the weight may be off by
  /// twice that step.
  std::vector<bool> unclear = std::vector<bool>(weights.size(), false);
};

/// Updates a row, or a dense parameter if not `is_row`, by the formulas of the papers, in double.
/// `rate` is the learning rate of the step.
inline void follow_the_paper(ReferenceRow& row,
                             OptimizerRule const& rule,
                             std::vector<double> gradients,
                             int step,
                             double rate,
                             bool is_row) {
  auto const kind = is_row ? OptimizerKind{rule.kind} : dense_kind(rule.kind);
  auto const count = row.weights.size();
  double const b1 = rule.beta1;
  double const b2 = rule.beta2;
  double const decay = rule.weight_decay;
  double const epsilon = rule.epsilon;
  bool const is_coupled = kind != OptimizerKind::adamw && kind != OptimizerKind::lamb &&
                          kind != OptimizerKind::lion && kind != OptimizerKind::ftrl;
  double squares = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    auto& g = gradients[i];
    g = std::clamp(g, -static_cast<double>(rule.clip_value), static_cast<double>(rule.clip_value));
    g += is_coupled ? decay * row.weights[i] : 0.0;
    squares += g * g;
  }
  double const mean = squares / static_cast<double>(count);
  std::vector<double> updates(count);
  double weight_norm = 0.0;
  double update_norm = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    double const g = gradients[i];
    double& w = row.weights[i];
    double& m = row.first[i];
    double& v = row.second[i];
    auto const adam = [&](double square) {
      m = b1 * m + (1 - b1) * g;
      v = b2 * v + (1 - b2) * square;
      return m / (1 - std::pow(b1, step)) / (std::sqrt(v / (1 - std::pow(b2, step))) + epsilon);
    };
    switch (kind) {
      case OptimizerKind::sgd:
        w -= rate * g;
        break;
      case OptimizerKind::momentum:
        m = b1 * m + g;
        w -= rate * m;
        break;
      case OptimizerKind::adagrad:
      case OptimizerKind::rowwise_adagrad:
        m += kind == OptimizerKind::adagrad ? g * g : mean;
        w -= rate * g / (std::sqrt(m) + epsilon);
        break;
      case OptimizerKind::rmsprop:
        m = b2 * m + (1 - b2) * g * g;
        w -= rate * g / (std::sqrt(m) + epsilon);
        break;
      case OptimizerKind::adam:
      case OptimizerKind::partial_rowwise_adam:
        w -= rate * adam(kind == OptimizerKind::adam ? g * g : mean);
        break;
      case OptimizerKind::adamw:
        w -= rate * (adam(g * g) + decay * w);
        break;
      case OptimizerKind::lamb:
        updates[i] = adam(g * g) + decay * w;
        weight_norm += w * w;
        update_norm += updates[i] * updates[i];
        break;
      case OptimizerKind::lion: {
        double const blend = b1 * m + (1 - b1) * g;
        if (std::abs(blend) < 1e-5 * (std::abs(b1 * m) + std::abs((1 - b1) * g))) {
          row.unclear[i] = true;
        }
        w -= rate * ((blend > 0 ? 1.0 : blend < 0 ? -1.0 : 0.0) + decay * w);
        m = b2 * m + (1 - b2) * g;
        break;
      }
      case OptimizerKind::ftrl: {
        double const sigma = (std::sqrt(v + g * g) - std::sqrt(v)) / rate;
        m += g - sigma * w;
        v += g * g;
        double const l1 = rule.l1;
        w = std::abs(m) <= l1
                ? 0.0
                : -(m - std::copysign(l1, m)) / ((rule.ftrl_beta + std::sqrt(v)) / rate + decay);
        break;
      }
    }
  }
  if (kind == OptimizerKind::lamb) {
    double const ratio =
        weight_norm > 0 && update_norm > 0 ? std::sqrt(weight_norm / update_norm) : 1.0;
    for (std::size_t i = 0; i < count; ++i) {
      row.weights[i] -= rate * ratio * updates[i];
    }
  }
}

}  // namespace msstream::ops::kernels::testing
