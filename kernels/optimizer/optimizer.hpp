// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/stochastic_rounding.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/ops/schedule.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace msstream::ops::kernels {

/// The step counter and what updates read in each step, in device memory, so that a replay of a
/// captured step uses current values.
struct StepState {
  std::int64_t step = 0;     ///< t, the number of steps; 0 before the first
  float correction1 = 1.0F;  ///< Adam's c1 = 1 / (1 - b1^t)
  float correction2 = 1.0F;  ///< Adam's c2 = 1 / (1 - b2^t)
  float rate = 1.0F;        ///< factor of learning rates: the base rate times the schedule's factor
  float base_rate = -1.0F;  ///< that set_base_rate() has set; negative: StepAdvance::base_rate
  /// Factor of gradients: 1 / micro-batches; 0 in a step that is skipped, in which updates change
  /// nothing.
  float gradient_factor = 1.0F;
  float norm_scale = 1.0F;   ///< factor of gradients, by which their global norm is clipped
  double norm = 0.0;         ///< global norm before it was clipped; 0 if it is not computed
  std::int64_t skipped = 0;  ///< the number of steps that were skipped
};
/// The bytes of a StepState that checkpoints have as the step, which are those in front of
/// `skipped`. They have the number of skipped steps, the bytes behind them, as a tensor of its own.
inline constexpr std::int64_t kSavedStepBytes = 40;
static_assert(offsetof(StepState, skipped) == kSavedStepBytes);
static_assert(sizeof(StepState) == kSavedStepBytes + sizeof(std::int64_t));

/// The scale by which a loss was multiplied before its gradients were computed, in device memory,
/// and how it changes: halved, say, by a step whose gradients overflow, and doubled by so many
/// steps in a row without an overflow. A static scale has growth and backoff of 1.
struct LossScaling {
  /// [2]: the scale, and the number of steps since it last changed; null: the scale is 1.
  float* state = nullptr;
  float growth = 2.0F;
  float backoff = 0.5F;
  float interval = 2000.0F;  ///< steps
};

/// The numbers of a step of an optimizer besides its StepState.
struct StepAdvance {
  OptimizerRule rule;
  float base_rate = 1.0F;  ///< factor of learning rates before the schedule, if the state has none
  Schedule::Numbers schedule = {};
  float const* table = nullptr;  ///< the factors of a tabulated schedule
  float gradient_factor = 1.0F;
  double clip_norm = std::numeric_limits<double>::infinity();
  bool skip_non_finite = false;   ///< whether a step whose norm is NaN or infinite is skipped
  LossScaling loss_scaling = {};  ///< divides gradients, and changes by the result of the step
};
/// Sets the state of an optimizer before its first step.
void reset_step(HostStream stream, StepState* state);
void reset_step(CudaStream stream, StepState* state);
/// Sets the factor of the rates of later steps. The schedule multiplies it.
void set_base_rate(HostStream stream, float base_rate, StepState* state);
void set_base_rate(CudaStream stream, float base_rate, StepState* state);
/// Increments the optimizer's step counter, and computes Adam's corrections and the rate from it,
/// in float64.
void advance_step(HostStream stream, StepAdvance const& advance, StepState* state);
void advance_step(CudaStream stream, StepAdvance const& advance, StepState* state);
template <class Stream>
void advance_step(Stream stream, OptimizerRule const& rule, StepState* state) {
  advance_step(stream, StepAdvance{rule}, state);
}

/// A gradient that is a part of a global norm.
struct NormPart {
  float const* gradient;
  std::int64_t count;  ///< number of elements
  std::int64_t const*
      row_count;       ///< device scalar: only so many rows exist; null if all elements do
  std::int64_t width;  ///< elements of a row
  float clip_value;    ///< finite elements are clipped before they are squared
  /// Whether `gradient` has the rows of many tables, of which those of this one are
  /// [row_count[-1], row_count[0]), and begin `stride` elements apart.
  bool is_part = false;
  std::int64_t stride = 0;
};
/// Returns the bytes of workspace that advance_step_by_norm() needs.
[[nodiscard]] std::size_t norm_workspace_bytes(std::span<NormPart const> parts);
/// Like advance_step(), and computes the global norm of all parts, and from it the factor of
/// gradients. The squares are added in float64 in an order that depends on the sizes alone.
void advance_step_by_norm(HostStream stream,
                          StepAdvance const& advance,
                          std::span<NormPart const> parts,
                          void* workspace,
                          StepState* state);
void advance_step_by_norm(CudaStream stream,
                          StepAdvance const& advance,
                          std::span<NormPart const> parts,
                          void* workspace,
                          StepState* state);

/// The part of a rank in the square of a global norm that several ranks have together.
struct NormSquares {
  double shared;  ///< of gradients that all ranks have
  double own;     ///< of gradients that this rank alone has
};
/// Adds the squares of all parts like advance_step_by_norm(), the first `shared` ones and the
/// others by themselves. The workspace has norm_workspace_bytes().
void norm_squares(HostStream stream,
                  StepAdvance const& advance,
                  std::span<NormPart const> parts,
                  std::size_t shared,
                  void* workspace,
                  NormSquares* squares);
void norm_squares(CudaStream stream,
                  StepAdvance const& advance,
                  std::span<NormPart const> parts,
                  std::size_t shared,
                  void* workspace,
                  NormSquares* squares);
/// Like advance_step_by_norm(), with the squares of `ranks` ranks, at least 1, in their order. Of
/// the shared squares those of rank 0 count, and those of other ranks that are not finite.
void advance_step_by_squares(HostStream stream,
                             StepAdvance const& advance,
                             NormSquares const* squares,
                             std::int64_t ranks,
                             StepState* state);
void advance_step_by_squares(CudaStream stream,
                             StepAdvance const& advance,
                             NormSquares const* squares,
                             std::int64_t ranks,
                             StepState* state);

/// The numbers of a rule in which parameters of one launch may differ.
struct GroupNumbers {
  float rate = 1.0F;  ///< factor of the rule's learning rate
  float weight_decay = 0.0F;
  float clip_value = std::numeric_limits<float>::infinity();
};

struct DenseUpdate {
  float* weight;
  float const* gradient;
  float* state0;  ///< null if the rule has no state
  float* state1;
  std::int64_t count;
  GroupNumbers numbers = {};
  DType copy_dtype = DType::bfloat16;  ///< float16 or bfloat16
  /// [count], the weight rounded to nearest even, which is written in a step that is skipped, too;
  /// null: no copy is kept.
  void* copy = nullptr;
};
/// Returns the bytes of workspace that update_dense() needs: none, except for LAMB.
[[nodiscard]] std::size_t dense_workspace_bytes(OptimizerKind kind,
                                                std::span<DenseUpdate const> updates);
/// Updates the weights and the optimizer state of any number of dense tensors, up to 48 per launch,
/// and writes their copies. LAMB has three launches instead of one.
void update_dense(HostStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates,
                  void* workspace = nullptr);
void update_dense(CudaStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates,
                  void* workspace = nullptr);

struct RowUpdate {
  void* table;  ///< [rows, width] of `dtype`; computed in float, and rounded as `rounding` says
  DType dtype;
  GroupNumbers numbers = {};
  std::int64_t width;
  std::int64_t const* row_ids;    ///< distinct row indices of the table
  std::int64_t const* row_count;  ///< device scalar ≤ capacity: the number of row_ids that exist
  std::int64_t capacity;
  float const* gradients;  ///< [capacity, width]
  float* state0;           ///< float32 [rows, width], [rows] if row-wise, or null
  float* state1;
  /// Whether `row_ids` and `gradients` are those of many tables, of which those of this one are
  /// [row_count[-1], row_count[0]), at most `capacity`. Gradients of rows then begin `stride`
  /// elements apart.
  bool is_part = false;
  std::int64_t first_row = 0;  ///< subtracted from the row indices of a part
  std::int64_t stride = 0;
  RowRounding rounding = {};
};
/// Returns the first of a table's row indices and gradients.
[[nodiscard]] constexpr std::int64_t first_of(RowUpdate const& update) {
  return update.is_part ? update.row_count[-1] : 0;
}
/// Updates the rows, with their gradients, of any number of distinct tables, up to 40 tables of one
/// element type per launch, or 32 that are rounded stochastically. The random bits are those of the
/// number of the step that `step` has, or 0 without it.
void update_rows(HostStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 std::span<RowUpdate const> updates);
void update_rows(CudaStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 std::span<RowUpdate const> updates);

}  // namespace msstream::ops::kernels
