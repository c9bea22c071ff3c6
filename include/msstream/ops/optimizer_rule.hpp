// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/required.hpp>

#include <cstdint>

namespace msstream::ops {

/// The kinds of optimizers. A parameter has no state tensor with sgd, one with momentum, adagrad
/// and rowwise_adagrad, and two with adam.
enum class OptimizerKind : std::uint8_t { sgd, momentum, adagrad, rowwise_adagrad, adam };

/// An optimizer's rule for the update of a weight w by its gradient g, with learning rate lr and
/// betas b1 and b2:
///
/// sgd:      w -= lr * g.
/// momentum: b = b1 b + g; w -= lr * b                   (without dampening; state0 = b).
/// adagrad:  a += g²; w -= lr * g / (sqrt(a) + epsilon)  (Duchi et al. 2011; state0 = a).
/// rowwise_adagrad: adagrad with one a per row of a table, which grows by the mean of the row's
///          g²: w -= lr / (sqrt(a) + epsilon) * g        (state0 [rows] = a). A dense parameter
///          has no rows and follows adagrad.
/// adam:    m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g²;
///          w -= lr * c1 * m / (sqrt(v * c2) + epsilon), c1 = 1 / (1 - b1^t), c2 = 1 / (1 - b2^t)
///          (Kingma & Ba 2015, algorithm 1; state0 = m, state1 = v).
///
/// Only the rows of a table that have a gradient are updated, and only their state. NaN and
/// infinity propagate by IEEE 754. A rule without a kind or a learning rate does not compile.
/// Operations that take a rule check that its numbers are in range: require_rule() in
/// ops/optimizer.hpp.
struct OptimizerRule {
  msstream::detail::Required<OptimizerKind> kind;
  msstream::detail::Required<float> learning_rate;  ///< [0, infinity)
  float beta1 = 0.9F;                               ///< [0, 1)
  float beta2 = 0.999F;                             ///< [0, 1)
  float epsilon = 1e-8F;                            ///< [0, infinity)
};

/// Returns the kind of optimizer for dense parameters: adagrad instead of rowwise_adagrad, which
/// needs rows, otherwise `kind` itself.
[[nodiscard]] constexpr OptimizerKind dense_kind(OptimizerKind kind) noexcept {
  return kind == OptimizerKind::rowwise_adagrad ? OptimizerKind::adagrad : kind;
}

}  // namespace msstream::ops
