// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/gradients.hpp"
#include "optimizer/optimizer.hpp"

#include <msstream/ops/optimizer_rule.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Applies one optimizer step to the rows of a table that a lookup has read, without storing the
/// rows' gradients in memory. Each row is updated once, with the gradient that
/// embedding_row_gradients() computes, in float, and rounded to nearest even. Gives the same bits
/// as embedding_row_gradients() followed by update_rows().
///
/// The CUDA implementation nevertheless writes gradients into the workspace for Pooling::max, for
/// up to 2,048 positions of ids, for widths that are not a multiple of 4, for a width above 128
/// with a rule that has one state per row, for LAMB, and for an output gradient of half precision
/// unless the rule is SGD, or row-wise Adagrad with a width of 128. In the other cases the output
/// gradient must be aligned to four elements.
struct EmbeddingUpdateArgs {
  RowGradientArgs gradient;        ///< row_gradients is unused; the workspace is that of the update
  std::int64_t const* unique_ids;  ///< [places], from deduplicate()
  void* table;  ///< [rows, width] of `table_dtype`; aligned to four elements if the width is a
                ///< multiple of 4
  DType table_dtype;  ///< float32, float16 or bfloat16
  float* state0;      ///< as in RowUpdate; 16-byte aligned if the table must be aligned
  float* state1;
  GroupNumbers numbers = {};
};
/// Returns the bytes of workspace that embedding_update() needs, without a query of the device.
std::size_t embedding_update_workspace_bytes(HostStream stream,
                                             OptimizerKind kind,
                                             RowGradientArgs const& gradient);
std::size_t embedding_update_workspace_bytes(CudaStream stream,
                                             OptimizerKind kind,
                                             RowGradientArgs const& gradient);
void embedding_update(HostStream stream,
                      OptimizerRule const& rule,
                      StepState const* step,
                      EmbeddingUpdateArgs const& args);
void embedding_update(CudaStream stream,
                      OptimizerRule const& rule,
                      StepState const* step,
                      EmbeddingUpdateArgs const& args);

}  // namespace msstream::ops::kernels
