// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/real_types.hpp"
#include "common/rounded.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/schedule_math.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/base/error.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

/// The update rules of the optimizers for one element. The CPU and the CUDA implementation evaluate
/// each rule operation for operation alike.
namespace msstream::ops::kernels {

/// Returns the kind whose kernels compute a rule: adam for adamw, which differs in two numbers.
[[nodiscard]] constexpr OptimizerKind kernel_kind(OptimizerKind kind) noexcept {
  return kind == OptimizerKind::adamw ? OptimizerKind::adam : kind;
}

template <OptimizerKind Kind>
inline constexpr bool has_state0 = Kind != OptimizerKind::sgd;
template <OptimizerKind Kind>
inline constexpr bool has_state1 =
    Kind == OptimizerKind::adam || Kind == OptimizerKind::lamb || Kind == OptimizerKind::ftrl ||
    Kind == OptimizerKind::partial_rowwise_adam;
/// Whether state0 or state1 of a table has one number per row.
template <OptimizerKind Kind>
inline constexpr bool has_row_state0 = Kind == OptimizerKind::rowwise_adagrad;
template <OptimizerKind Kind>
inline constexpr bool has_row_state1 = Kind == OptimizerKind::partial_rowwise_adam;
/// Whether the optimizer rule keeps one number of state per row, computed from the mean of the
/// squares of the row's gradient.
template <OptimizerKind Kind>
inline constexpr bool has_row_state = has_row_state0<Kind> || has_row_state1<Kind>;
/// Whether the rule needs norms of a whole row or of a whole dense parameter.
template <OptimizerKind Kind>
inline constexpr bool has_trust_ratio = Kind == OptimizerKind::lamb;
template <OptimizerKind Kind>
inline constexpr bool needs_whole_rows = has_row_state<Kind> || has_trust_ratio<Kind>;

/// The constants of an optimizer rule in one step, which include Adam's corrections.
struct StepRule {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float correction1;
  float correction2;
  float coupled_decay;    ///< d of d w, which is added to the gradient
  float decoupled_decay;  ///< d of lr d w, which is subtracted from the weight
  float gradient_scale;   ///< with which gradients are multiplied: mean and clipping by norm
  float clip_bound;       ///< clipping by value, of gradients that are multiplied already
  bool keeps_gradients;   ///< whether scale, clipping and coupled decay change no gradient
  float l1;
  float l2;
  float ftrl_beta;
};

/// Returns whether updates change nothing in this step. A null `step` stands for one that is not
/// skipped.
MSSTREAM_HOST_DEVICE inline bool is_skipped(StepState const* step) {
  return step != nullptr && step->gradient_factor == 0.0F;
}

/// Returns the number of the step, by which weights are rounded stochastically. A null `step`
/// stands for step 0.
MSSTREAM_HOST_DEVICE inline std::int64_t step_of(StepState const* step) {
  return step == nullptr ? 0 : step->step;
}

/// Returns the constants of an optimizer rule for a step. A null `step` stands for a step with
/// learning rate factor 1 and without corrections.
template <OptimizerKind Kind>
MSSTREAM_HOST_DEVICE inline StepRule rule_of_step(OptimizerRule const& rule,
                                                  GroupNumbers const& group,
                                                  StepState const* step) {
  StepRule out{};
  Rounded const rate = Rounded<float>{rule.learning_rate} * Rounded{group.rate};
  out.learning_rate = step == nullptr ? rate.value : (rate * Rounded{step->rate}).value;
  out.beta1 = rule.beta1;
  out.beta2 = rule.beta2;
  out.epsilon = rule.epsilon;
  Rounded const norm_scale{step == nullptr ? 1.0F : step->norm_scale};
  out.gradient_scale = step == nullptr ? 1.0F : (Rounded{step->gradient_factor} * norm_scale).value;
  out.clip_bound = (Rounded{group.clip_value} * norm_scale).value;
  if constexpr (Kind == OptimizerKind::adam || Kind == OptimizerKind::lamb ||
                Kind == OptimizerKind::partial_rowwise_adam) {
    out.correction1 = step->correction1;
    out.correction2 = step->correction2;
  }
  if constexpr (Kind == OptimizerKind::ftrl) {
    out.l1 = rule.l1;
    out.l2 = group.weight_decay;
    out.ftrl_beta = rule.ftrl_beta;
  } else if constexpr (Kind == OptimizerKind::lamb || Kind == OptimizerKind::lion) {
    out.decoupled_decay = group.weight_decay;
  } else {
    bool const is_decoupled = OptimizerKind{rule.kind} == OptimizerKind::adamw;
    out.coupled_decay = is_decoupled ? 0.0F : group.weight_decay;
    out.decoupled_decay = is_decoupled ? group.weight_decay : 0.0F;
  }
  out.keeps_gradients = out.gradient_scale == 1.0F && out.coupled_decay == 0.0F &&
                        out.clip_bound == std::numeric_limits<float>::infinity();
  return out;
}

/// Returns an element of a gradient, multiplied by a factor and then clipped by value.
MSSTREAM_HOST_DEVICE inline float clipped(float gradient, float factor, float bound) {
  float const scaled = (Rounded{gradient} * Rounded{factor}).value;
  return scaled > bound ? bound : scaled < -bound ? -bound : scaled;
}
/// Returns an element as the global norm counts it: clipped, but for infinite ones that are to make
/// the norm infinite.
MSSTREAM_HOST_DEVICE inline float counted(float gradient,
                                          float factor,
                                          float bound,
                                          bool keeps_infinite) {
  float const scaled = (Rounded{gradient} * Rounded{factor}).value;
  bool const is_kept = keeps_infinite && scaled - scaled != 0.0F;
  return is_kept ? scaled : clipped(gradient, factor, bound);
}
/// Returns an element of the gradient that a rule uses: the mean over micro-batches, clipped by
/// value and by the global norm, with the coupled weight decay.
MSSTREAM_HOST_DEVICE inline float shaped(StepRule const& rule, float gradient, float weight) {
  Rounded const g{clipped(gradient, rule.gradient_scale, rule.clip_bound)};
  return rule.coupled_decay == 0.0F ? g.value
                                    : (g + Rounded{rule.coupled_decay} * Rounded{weight}).value;
}

/// Updates Adam's moments by a gradient.
MSSTREAM_HOST_DEVICE inline void move_moments(StepRule const& rule,
                                              Rounded<float> g,
                                              float& first,
                                              float& second) {
  Rounded const beta1{rule.beta1};
  Rounded const beta2{rule.beta2};
  Rounded const one{1.0F};
  first = (beta1 * Rounded{first} + (one - beta1) * g).value;
  second = (beta2 * Rounded{second} + (one - beta2) * (g * g)).value;
}
/// Returns the bound of Adam's step, by which the first moment is divided.
MSSTREAM_HOST_DEVICE inline Rounded<float> adam_bound(StepRule const& rule, float second) {
  return root(Rounded{second} * Rounded{rule.correction2}) + Rounded{rule.epsilon};
}
/// Returns the update of LAMB for one weight, without rate and trust ratio, from its new moments.
MSSTREAM_HOST_DEVICE inline float lamb_update(StepRule const& rule,
                                              float weight,
                                              float first,
                                              float second) {
  Rounded const update = Rounded{rule.correction1} * Rounded{first} / adam_bound(rule, second);
  return rule.decoupled_decay == 0.0F
             ? update.value
             : (update + Rounded{rule.decoupled_decay} * Rounded{weight}).value;
}
/// Returns the trust ratio of LAMB from the sums of the squares of weights and updates. `Number` is
/// float or double.
template <class Number>
MSSTREAM_HOST_DEVICE inline float trust_ratio(Number weights, Number updates) {
  return weights > Number{0} && updates > Number{0}
             ? static_cast<float>(std::sqrt(weights) / std::sqrt(updates))
             : 1.0F;
}
/// Moves a weight by LAMB's update. `rate` is the learning rate times the trust ratio.
MSSTREAM_HOST_DEVICE inline void move_by_update(float rate, float update, float& weight) {
  weight = (Rounded{weight} - Rounded{rate} * Rounded{update}).value;
}
MSSTREAM_HOST_DEVICE inline float lamb_rate(StepRule const& rule, float ratio) {
  return (Rounded{rule.learning_rate} * Rounded{ratio}).value;
}

/// Returns 1, 0 or -1, and NaN for NaN.
MSSTREAM_HOST_DEVICE inline float sign_of(float value) {
  return value > 0.0F ? 1.0F : value < 0.0F ? -1.0F : value * 0.0F;
}

MSSTREAM_HOST_DEVICE inline void move_by_ftrl(
    StepRule const& rule, Rounded<float> g, float& weight, float& linear, float& squares) {
  if (rule.learning_rate == 0.0F) {
    return;
  }
  Rounded const rate{rule.learning_rate};
  Rounded const square = g * g;
  Rounded const before = root(Rounded{squares});
  Rounded const sum = Rounded{squares} + square;
  Rounded const after = root(sum);
  // sqrt(n + g²) - sqrt(n) without cancellation
  Rounded const roots = after + before;
  Rounded const grown = roots.value == 0.0F ? roots : square / roots;
  Rounded const z = Rounded{linear} + g - grown / rate * Rounded{weight};
  linear = z.value;
  squares = sum.value;
  Rounded const bound = (Rounded{rule.ftrl_beta} + after) / rate + Rounded{rule.l2};
  float const magnitude = z.value < 0.0F ? -z.value : z.value;
  if (magnitude <= rule.l1) {
    weight = 0.0F;
  } else {
    Rounded const beyond = z - Rounded{sign_of(z.value)} * Rounded{rule.l1};
    Rounded const moved = beyond / bound;
    weight = -moved.value;
  }
}

/// Updates one weight and its optimizer state, by a rule that treats each weight alone.
template <OptimizerKind Kind>
MSSTREAM_HOST_DEVICE inline void move(
    StepRule const& rule, float gradient, float& weight, float& state0, float& state1) {
  Rounded const rate{rule.learning_rate};
  Rounded const beta1{rule.beta1};
  Rounded const epsilon{rule.epsilon};
  Rounded const g{shaped(rule, gradient, weight)};
  Rounded const w{weight};
  if constexpr (Kind == OptimizerKind::sgd) {
    weight = (w - rate * g).value;
  } else if constexpr (Kind == OptimizerKind::momentum) {
    Rounded const kept = beta1 * Rounded{state0} + g;
    state0 = kept.value;
    weight = (w - rate * kept).value;
  } else if constexpr (Kind == OptimizerKind::adagrad) {
    Rounded const squares = Rounded{state0} + g * g;
    state0 = squares.value;
    weight = (w - rate * g / (root(squares) + epsilon)).value;
  } else if constexpr (Kind == OptimizerKind::rmsprop) {
    Rounded const beta2{rule.beta2};
    Rounded const squares = beta2 * Rounded{state0} + (Rounded{1.0F} - beta2) * (g * g);
    state0 = squares.value;
    weight = (w - rate * g / (root(squares) + epsilon)).value;
  } else if constexpr (Kind == OptimizerKind::lion) {
    Rounded const beta2{rule.beta2};
    Rounded const one{1.0F};
    Rounded const mean{state0};
    Rounded const sign{sign_of((beta1 * mean + (one - beta1) * g).value)};
    state0 = (beta2 * mean + (one - beta2) * g).value;
    weight = rule.decoupled_decay == 0.0F
                 ? (w - rate * sign).value
                 : (w - rate * (sign + Rounded{rule.decoupled_decay} * w)).value;
  } else if constexpr (Kind == OptimizerKind::ftrl) {
    move_by_ftrl(rule, g, weight, state0, state1);
  } else {
    static_assert(Kind == OptimizerKind::adam);
    move_moments(rule, g, state0, state1);
    Rounded const step =
        rate * Rounded{rule.correction1} * Rounded{state0} / adam_bound(rule, state1);
    weight = rule.decoupled_decay == 0.0F
                 ? (w - step).value
                 : (w - (step + rate * Rounded{rule.decoupled_decay} * w)).value;
  }
}

/// Adds the mean of a row's squared gradients to the row's state, and returns the number with which
/// move_in_row() updates the row's elements: for row-wise Adagrad the rate, for partial row-wise
/// Adam the bound of the step.
template <OptimizerKind Kind>
MSSTREAM_HOST_DEVICE inline float move_row_state_by_mean(StepRule const& rule,
                                                         float mean_of_squares,
                                                         float& row_state) {
  Rounded const mean{mean_of_squares};
  if constexpr (Kind == OptimizerKind::rowwise_adagrad) {
    Rounded const state = Rounded{row_state} + mean;
    row_state = state.value;
    return (Rounded{rule.learning_rate} / (root(state) + Rounded{rule.epsilon})).value;
  } else {
    static_assert(Kind == OptimizerKind::partial_rowwise_adam);
    Rounded const beta2{rule.beta2};
    row_state = (beta2 * Rounded{row_state} + (Rounded{1.0F} - beta2) * mean).value;
    return adam_bound(rule, row_state).value;
  }
}
/// Does what move_row_state_by_mean() does, with the sum of the squares of `width` columns.
template <OptimizerKind Kind, std::integral Width>
MSSTREAM_HOST_DEVICE inline float move_row_state(StepRule const& rule,
                                                 float sum_of_squares,
                                                 Width width,
                                                 float& row_state) {
  Rounded const mean = Rounded{sum_of_squares} / Rounded{static_cast<float>(width)};
  return move_row_state_by_mean<Kind>(rule, mean.value, row_state);
}
/// Updates one weight of a row, by a rule with one number of state per row. `gradient` is that
/// which shaped() returns.
template <OptimizerKind Kind>
MSSTREAM_HOST_DEVICE inline void move_in_row(
    StepRule const& rule, float of_row, float gradient, float& weight, float& state0) {
  Rounded const g{gradient};
  if constexpr (Kind == OptimizerKind::rowwise_adagrad) {
    weight = (Rounded{weight} - Rounded{of_row} * g).value;
  } else {
    static_assert(Kind == OptimizerKind::partial_rowwise_adam);
    Rounded const beta1{rule.beta1};
    Rounded const mean = beta1 * Rounded{state0} + (Rounded{1.0F} - beta1) * g;
    state0 = mean.value;
    weight = (Rounded{weight} -
              Rounded{rule.learning_rate} * Rounded{rule.correction1} * mean / Rounded{of_row})
                 .value;
  }
}

// Adds the square of a gradient to a lane's part of the sum of a row's squares. The order of the
// additions is fixed, so that the sum has the same bits in all kernels and on the host: lane l of
// row_lanes() lanes adds the columns 4l to 4l + 3, and again at every further 4 * row_lanes()
// columns; then each lane adds the sum of the lane at a distance, which goes from half of the lanes
// down to one.

MSSTREAM_HOST_DEVICE inline float add_square(float sum, float gradient) {
  return (Rounded{sum} + Rounded{gradient} * Rounded{gradient}).value;
}
/// Returns the number of lanes that share a row of `width` columns: a power of two, at most 32.
[[nodiscard]] constexpr int row_lanes(std::int64_t width) {
  std::int64_t lanes = 1;
  while (lanes < 32 && 4 * lanes < width) {
    lanes *= 2;
  }
  return static_cast<int>(lanes);
}

/// Returns Adam's correction for a beta in step `step`, from 1.
MSSTREAM_HOST_DEVICE inline float correction_of(float beta, std::int64_t step) {
  return static_cast<float>(1.0 /
                            (1.0 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
}
/// Returns the factor of the rates in step `step`, from 1. `base_rate` is that of the state.
MSSTREAM_HOST_DEVICE inline float rate_of_step(StepAdvance const& advance,
                                               float base_rate,
                                               std::int64_t step) {
  auto const base = static_cast<double>(base_rate < 0.0F ? advance.base_rate : base_rate);
  return static_cast<float>(base * schedule_factor(advance.schedule, advance.table, step - 1));
}
/// Returns the factor of the gradients of a step, which takes off the scale of the loss.
MSSTREAM_HOST_DEVICE inline float gradient_factor_of(StepAdvance const& advance) {
  float const* const scale = advance.loss_scaling.state;
  return scale == nullptr ? advance.gradient_factor : advance.gradient_factor / *scale;
}
/// Changes the scale of the loss after a step. The scale stays a normal number between 2^-100 and
/// 2^100, so that it and its reciprocal are finite.
MSSTREAM_HOST_DEVICE inline void advance_loss_scale(LossScaling const& scaling, bool is_skipped) {
  if (scaling.state == nullptr) {
    return;
  }
  float const scale = scaling.state[0];
  float const steps = scaling.state[1] + 1.0F;
  bool const grows = !is_skipped && steps >= scaling.interval;
  float const next = is_skipped ? scale * scaling.backoff : grows ? scale * scaling.growth : scale;
  scaling.state[0] = next < 0x1p-100F ? 0x1p-100F : next > 0x1p100F ? 0x1p100F : next;
  scaling.state[1] = is_skipped || grows ? 0.0F : steps;
}
/// Returns the square of the global norm of several ranks: see advance_step_by_squares().
MSSTREAM_HOST_DEVICE inline double square_of_norm(NormSquares const* squares, std::int64_t ranks) {
  double sum = squares[0].shared + squares[0].own;
  for (std::int64_t rank = 1; rank < ranks; ++rank) {
    double const shared = squares[rank].shared;
    sum += squares[rank].own;
    if (shared - shared != 0.0) {
      sum += shared;
    }
  }
  return sum;
}
/// Returns the factor that brings a gradient with this sum of squares to at most the norm
/// `clip_norm`. A sum that is NaN gives NaN.
MSSTREAM_HOST_DEVICE inline float norm_scale_of(double clip_norm, double norm) {
  return norm <= clip_norm ? 1.0F : static_cast<float>(clip_norm / norm);
}

/// Calls `function` with the optimizer kind as a compile-time constant, so that each kind has an
/// instantiation of its own.
template <class Function>
void with_kind(OptimizerKind kind, Function&& function) {
  switch (kernel_kind(kind)) {
    case OptimizerKind::sgd:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::sgd>{});
    case OptimizerKind::momentum:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::momentum>{});
    case OptimizerKind::adagrad:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::adagrad>{});
    case OptimizerKind::rowwise_adagrad:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::rowwise_adagrad>{});
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::adam>{});
    case OptimizerKind::lamb:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::lamb>{});
    case OptimizerKind::ftrl:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::ftrl>{});
    case OptimizerKind::rmsprop:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::rmsprop>{});
    case OptimizerKind::lion:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::lion>{});
    case OptimizerKind::partial_rowwise_adam:
      return function(std::integral_constant<OptimizerKind, OptimizerKind::partial_rowwise_adam>{});
  }
}
/// Calls `function` with the optimizer kind that dense parameters use, as a compile-time constant.
/// Dense parameters have no rows, so row-wise Adagrad becomes Adagrad, and partial row-wise Adam
/// becomes Adam. Not called for LAMB, which has kernels of its own.
template <class Function>
void with_dense_kind(OptimizerKind kind, Function&& function) {
  with_kind(dense_kind(kind), [&](auto known) {
    if constexpr (!needs_whole_rows<known()>) {
      function(known);
    }
  });
}

/// Throws std::invalid_argument unless the weights of all tables have a floating-point type.
/// Callers must call require_table_types() before they launch a kernel.
inline void require_table_types(std::span<RowUpdate const> updates) {
  for (auto const& update : updates) {
    require_real_type("update_rows: a table", update.dtype);
  }
}

}  // namespace msstream::ops::kernels
