// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/required.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>
#include <span>

namespace msstream::ops {

/// Which update rule; the state tensors a parameter needs are 0, 1, 1, 1 and 2.
enum class OptimizerKind : std::uint8_t { sgd, momentum, adagrad, rowwise_adagrad, adam };

/// sgd:      w -= lr * g.
/// momentum: b = b1 b + g; w -= lr * b                   (without dampening; state0 = b).
/// adagrad:  a += g²; w -= lr * g / (sqrt(a) + epsilon)  (Duchi et al. 2011; state0 = a).
/// rowwise_adagrad: the same with one a for a row of a table, which grows by the mean of the row's
///          g²: w -= lr / (sqrt(a) + epsilon) * g        (state0 [rows] = a). A dense parameter has
///          no rows and moves by adagrad.
/// adam:    m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g²;
///          w -= lr * c1 * m / (sqrt(v * c2) + epsilon), c1 = 1 / (1 - b1^t), c2 = 1 / (1 - b2^t)
///          (Kingma & Ba 2015, algorithm 1; state0 = m, state1 = v).
/// Of a table only rows with a gradient move, state too. NaN and infinity go their IEEE 754 way.
/// A rule without a kind or a learning rate does not compile; what takes a rule refuses numbers
/// out of range: require_rule() in ops/optimizer.hpp.
struct OptimizerRule {
  Required<OptimizerKind> kind;
  Required<float> learning_rate;  ///< [0, infinity)
  float beta1 = 0.9F;             ///< [0, 1)
  float beta2 = 0.999F;           ///< [0, 1)
  float epsilon = 1e-8F;          ///< [0, infinity)
};

/// The rule that dense parameters follow.
[[nodiscard]] constexpr OptimizerKind dense_kind(OptimizerKind kind) noexcept {
  return kind == OptimizerKind::rowwise_adagrad ? OptimizerKind::adagrad : kind;
}

namespace kernels {

/// The step counter and Adam's corrections, on the device, so that a captured step replays right.
struct StepState {
  std::int64_t step;  ///< t: 0 before the first step
  float correction1;  ///< c1
  float correction2;  ///< c2
  std::int64_t reserved;
};
/// state->step += 1 and the corrections follow, computed in double.
void advance_step(HostStream stream, OptimizerRule const& rule, StepState* state);
void advance_step(CudaStream stream, OptimizerRule const& rule, StepState* state);

struct DenseUpdate {
  float* weight;
  float const* gradient;
  float* state0;  ///< or null where the rule has none
  float* state1;
  std::int64_t count;
};
/// Any number of tensors; one launch for up to 48.
void update_dense(HostStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates);
void update_dense(CudaStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates);

struct RowUpdate {
  void* table;  ///< [rows, width] of `dtype`; read, moved in float, rounded to nearest even back
  DType dtype;
  std::int64_t width;
  std::int64_t const* row_ids;    ///< distinct, in range
  std::int64_t const* row_count;  ///< device scalar ≤ capacity
  std::int64_t capacity;
  float const* gradients;  ///< [capacity, width]
  float* state0;           ///< [rows, width] float32, row-wise [rows], or null
  float* state1;
};
/// Any number of tables, none of them twice; one launch for up to 40 of one element type.
void update_rows(HostStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 std::span<RowUpdate const> updates);
void update_rows(CudaStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 std::span<RowUpdate const> updates);

}  // namespace kernels
}  // namespace msstream::ops
