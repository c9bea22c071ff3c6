// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/required.hpp>

#include <cstdint>
#include <limits>
#include <optional>

namespace msstream::ops {

/// The kinds of optimizers. A parameter has no state tensor with sgd, one with momentum, adagrad,
/// rowwise_adagrad, rmsprop and lion, and two with the others.
enum class OptimizerKind : std::uint8_t {
  sgd,
  momentum,
  adagrad,
  rowwise_adagrad,
  adam,
  adamw,
  lamb,
  ftrl,
  rmsprop,
  lion,
  partial_rowwise_adam
};

/// An optimizer's rule for the update of a weight w by its gradient g, with learning rate lr, betas
/// b1 and b2, and weight decay d:
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
/// adamw:   adam with decoupled weight decay: w -= lr * (c1 * m / (sqrt(v * c2) + epsilon) + d w)
///          (Loshchilov & Hutter 2019, algorithm 2; the decay is multiplied by the whole rate).
/// lamb:    u = c1 * m / (sqrt(v * c2) + epsilon) + d w, with m, v, c1 and c2 of adam;
///          w -= lr * r * u, r = |w| / |u|, or 1 if one of the norms is 0. The norms are those of a
///          dense parameter or of a row of a table (You et al. 2020, algorithm 2).
/// ftrl:    s = (sqrt(n + g²) - sqrt(n)) / lr; z += g - s w; n += g²;
///          w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((ftrl_beta + sqrt(n)) / lr + d)
///          (FTRL-Proximal: McMahan et al. 2013, algorithm 1; state0 = z, state1 = n). Nothing
///          changes in a step with lr = 0. The first steps pull a weight that does not begin with 0
///          towards 0, unless ftrl_beta = 0. A weight whose gradients were all 0 becomes 0, too.
/// rmsprop: v = b2 v + (1 - b2) g²; w -= lr * g / (sqrt(v) + epsilon)
///          (Hinton, Coursera lecture 6e, without momentum; state0 = v).
/// lion:    w -= lr * (sign(b1 m + (1 - b1) g) + d w); m = b2 m + (1 - b2) g
///          (Chen et al. 2023, algorithm 2, which has b2 = 0.99; state0 = m).
/// partial_rowwise_adam: adam with one v per row of a table, of the mean of the row's g²
///          (state0 = m, state1 [rows] = v). A dense parameter has no rows and follows adam.
///
/// The decay d is decoupled with adamw, lamb and lion, and the L2 term of ftrl. With all other
/// kinds it is coupled: d w is added to g before anything else. g is the gradient after clipping.
///
/// Only the rows of a table that have a gradient are updated, and only their state; other rows do
/// not decay. NaN and infinity propagate by IEEE 754. A rule without a kind or a learning rate does
/// not compile. Operations that take a rule check that its numbers are in range, and that those
/// that its formula lacks are the defaults: require_rule() in ops/optimizer.hpp.
struct OptimizerRule {
  msstream::detail::Required<OptimizerKind> kind;
  msstream::detail::Required<float> learning_rate;  ///< [0, infinity)
  float beta1 = 0.9F;                               ///< [0, 1)
  float beta2 = 0.999F;                             ///< [0, 1)
  float epsilon = 1e-8F;                            ///< [0, infinity)
  float weight_decay = 0.0F;                        ///< [0, infinity)
  /// Each element of a gradient is clipped to [-clip_value, clip_value] first; (0, infinity].
  float clip_value = std::numeric_limits<float>::infinity();
  float l1 = 0.0F;         ///< [0, infinity); only ftrl takes one that is not 0
  float ftrl_beta = 1.0F;  ///< [0, infinity); ftrl only
};

/// The numbers in which some parameters differ from the rule of their optimizer.
struct ParameterGroup {
  float learning_rate = 1.0F;                        ///< factor of the learning rate, [0, infinity)
  std::optional<float> weight_decay = std::nullopt;  ///< instead of the rule's
  std::optional<float> clip_value = std::nullopt;    ///< instead of the rule's

  friend bool operator==(ParameterGroup const&, ParameterGroup const&) = default;
};

/// Returns the kind of optimizer for dense parameters: adagrad instead of rowwise_adagrad and adam
/// instead of partial_rowwise_adam, which need rows, otherwise `kind` itself.
[[nodiscard]] constexpr OptimizerKind dense_kind(OptimizerKind kind) noexcept {
  return kind == OptimizerKind::rowwise_adagrad        ? OptimizerKind::adagrad
         : kind == OptimizerKind::partial_rowwise_adam ? OptimizerKind::adam
                                                       : kind;
}

}  // namespace msstream::ops
