// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/id_array.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// output[i, :] = table[ids[i], :] for i < *count, in bytes; zeros for an id outside [0, rows).
/// What lies beyond the count is not touched.
struct GatherRowsArgs {
  void const* table;  ///< [rows, row_bytes]
  std::int64_t rows;
  std::int64_t row_bytes;
  IdArray ids;  ///< [capacity]
  std::int64_t capacity;
  std::int64_t const* count;  ///< device scalar, or null for all of the capacity
  void* output;               ///< [capacity, row_bytes]
};
void gather_rows(HostStream stream, GatherRowsArgs const& args);
void gather_rows(CudaStream stream, GatherRowsArgs const& args);

/// Where rows go. Of several places of the same id the last one counts; ids outside [0, rows) and
/// places beyond the count do not.
struct RowTargets {
  IdArray ids;                ///< [capacity]
  std::int64_t capacity;      ///< below 2^31
  std::int64_t const* count;  ///< device scalar, or null for all of the capacity
  std::int64_t rows;
  void* workspace;  ///< scatter_rows_[gradient_]workspace_bytes() bytes, 256-byte aligned
};

/// output[ids[i], :] = values[i, :], in bytes; other rows are set to zero or kept.
struct ScatterRowsArgs {
  void const* values;  ///< [capacity, row_bytes]
  std::int64_t row_bytes;
  RowTargets targets;
  bool keeps_others;
  void* output;  ///< [rows, row_bytes]
};
/// Asks no device.
std::size_t scatter_rows_workspace_bytes(HostStream stream,
                                         std::int64_t capacity,
                                         std::int64_t rows,
                                         bool keeps_others);
std::size_t scatter_rows_workspace_bytes(CudaStream stream,
                                         std::int64_t capacity,
                                         std::int64_t rows,
                                         bool keeps_others);
void scatter_rows(HostStream stream, ScatterRowsArgs const& args);
void scatter_rows(CudaStream stream, ScatterRowsArgs const& args);

/// value_gradients[i, :] = output_gradient[ids[i], :] where place i counts, else zeros.
struct ScatterRowsGradientArgs {
  void const* output_gradient;  ///< [rows, row_bytes]
  std::int64_t row_bytes;
  RowTargets targets;
  void* value_gradients;  ///< [capacity, row_bytes]
};
/// Asks no device.
std::size_t scatter_rows_gradient_workspace_bytes(HostStream stream,
                                                  std::int64_t capacity,
                                                  std::int64_t rows);
std::size_t scatter_rows_gradient_workspace_bytes(CudaStream stream,
                                                  std::int64_t capacity,
                                                  std::int64_t rows);
void scatter_rows_gradient(HostStream stream, ScatterRowsGradientArgs const& args);
void scatter_rows_gradient(CudaStream stream, ScatterRowsGradientArgs const& args);

}  // namespace msstream::ops::kernels
