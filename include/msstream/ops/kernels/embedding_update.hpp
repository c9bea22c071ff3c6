// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/embedding_gradient.hpp>
#include <msstream/ops/kernels/optimizer.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// One optimizer step for the rows of a table that a lookup has read, without their gradients in
/// memory: each moves once, by what embedding_row_gradients() would give, in float, rounded to
/// nearest even back. The same bits as that and update_rows().
///
/// The CUDA twin writes gradients into the workspace all the same for a maximum, for an output
/// gradient that is not float32, for up to 2,048 places, for widths that are no multiple of 4, and
/// for a rule with one number of state a row where a row is wider than 128.
struct EmbeddingUpdateArgs {
  RowGradientArgs gradient;        ///< without row_gradients; its workspace is the update's
  std::int64_t const* unique_ids;  ///< [places], as deduplicate() writes it
  void* table;  ///< [rows, width] of `table_dtype`; aligned to four elements where width is % 4
  DType table_dtype;  ///< float32, float16 or bfloat16
  float* state0;      ///< as update_rows() has them, aligned to 16 bytes where the table is
  float* state1;
};
/// Asks no device.
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
