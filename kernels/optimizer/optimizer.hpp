// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

/// The step counter and Adam's corrections, in device memory, so that a replay of a captured step
/// uses current values.
struct StepState {
  std::int64_t step;  ///< t, the number of steps; 0 before the first
  float correction1;  ///< Adam's c1 = 1 / (1 - b1^t)
  float correction2;  ///< Adam's c2 = 1 / (1 - b2^t)
  std::int64_t reserved;
};
/// Increments the optimizer's step counter and computes Adam's corrections from it, in float64.
void advance_step(HostStream stream, OptimizerRule const& rule, StepState* state);
void advance_step(CudaStream stream, OptimizerRule const& rule, StepState* state);

struct DenseUpdate {
  float* weight;
  float const* gradient;
  float* state0;  ///< null if the rule has no state
  float* state1;
  std::int64_t count;
};
/// Updates the weights and the optimizer state of any number of dense tensors, up to 48 per launch.
void update_dense(HostStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates);
void update_dense(CudaStream stream,
                  OptimizerRule const& rule,
                  StepState const* step,
                  std::span<DenseUpdate const> updates);

struct RowUpdate {
  void* table;  ///< [rows, width] of `dtype`; computed in float, rounded to nearest even
  DType dtype;
  std::int64_t width;
  std::int64_t const* row_ids;    ///< distinct row indices of the table
  std::int64_t const* row_count;  ///< device scalar ≤ capacity: the number of row_ids that exist
  std::int64_t capacity;
  float const* gradients;  ///< [capacity, width]
  float* state0;           ///< float32 [rows, width], [rows] if row-wise, or null
  float* state1;
};
/// Updates the rows, with their gradients, of any number of distinct tables, up to 40 tables of one
/// element type per launch.
void update_rows(HostStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 std::span<RowUpdate const> updates);
void update_rows(CudaStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 std::span<RowUpdate const> updates);

}  // namespace msstream::ops::kernels
