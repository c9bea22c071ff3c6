// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_array.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Copies rows of a table: output[i, :] = table[ids[i], :] for i < *count, byte by byte. An id
/// outside [0, rows) gives zeros. Rows beyond the count are not written.
struct GatherRowsArgs {
  void const* table;  ///< [rows, row_bytes]
  std::int64_t rows;
  std::int64_t row_bytes;
  IdArray ids;  ///< [capacity]
  std::int64_t capacity;
  std::int64_t const* count;  ///< device scalar, or null if all `capacity` ids exist
  void* output;               ///< [capacity, row_bytes]
};
void gather_rows(HostStream stream, GatherRowsArgs const& args);
void gather_rows(CudaStream stream, GatherRowsArgs const& args);

/// The target row of each value row in a scatter. If an id occurs several times, only its last
/// occurrence is used. Ids outside [0, rows) and ids beyond the count are ignored.
struct RowTargets {
  IdArray ids;                ///< [capacity]
  std::int64_t capacity;      ///< below 2^31
  std::int64_t const* count;  ///< device scalar, or null if all `capacity` ids exist
  std::int64_t rows;
  void* workspace;  ///< scatter_rows_[gradient_]workspace_bytes() bytes, 256-byte aligned
};

/// Copies rows into a table: output[ids[i], :] = values[i, :], byte by byte. Rows that are no
/// target are kept if `keeps_others` is true, and set to zero otherwise.
struct ScatterRowsArgs {
  void const* values;  ///< [capacity, row_bytes]
  std::int64_t row_bytes;
  RowTargets targets;
  bool keeps_others;
  void* output;  ///< [rows, row_bytes]
};
/// Returns the bytes of workspace that scatter_rows() needs, without a query of the device.
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

/// Computes the gradient of scatter_rows(): value_gradients[i, :] = output_gradient[ids[i], :] if
/// ids[i] is in range and the last occurrence of the id, otherwise zeros.
struct ScatterRowsGradientArgs {
  void const* output_gradient;  ///< [rows, row_bytes]
  std::int64_t row_bytes;
  RowTargets targets;
  void* value_gradients;  ///< [capacity, row_bytes]
};
/// Returns the bytes of workspace that scatter_rows_gradient() needs, without a query of the
/// device.
std::size_t scatter_rows_gradient_workspace_bytes(HostStream stream,
                                                  std::int64_t capacity,
                                                  std::int64_t rows);
std::size_t scatter_rows_gradient_workspace_bytes(CudaStream stream,
                                                  std::int64_t capacity,
                                                  std::int64_t rows);
void scatter_rows_gradient(HostStream stream, ScatterRowsGradientArgs const& args);
void scatter_rows_gradient(CudaStream stream, ScatterRowsGradientArgs const& args);

}  // namespace msstream::ops::kernels
