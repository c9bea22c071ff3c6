// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The arguments of column_sums(), which computes sums[c] = sum over the rows of weights[row] *
/// matrix[row, c] in float32, row-major, for each of `layers` layers. The layers are adjacent in
/// every array.
struct ColumnSums {
  void const* matrix;             ///< [layers, rows, columns] of `dtype`
  void const* weights = nullptr;  ///< [layers, rows] of `dtype`, or null if all weights are 1
  std::int64_t rows;
  std::int64_t columns;
  float* sums;                  ///< [layers, columns]
  float* weight_sum = nullptr;  ///< [layers], the sums of the weights; null if not requested
  std::int64_t layers = 1;
  bool shared_matrix = false;    ///< true if one [rows, columns] matrix serves all layers
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
};

/// The most rows that column_sums() adds in one pass. With no more, it does not use the workspace.
inline constexpr std::int64_t kRowsOfOnePass = 512;

/// Computes the weighted column sums of one matrix or of several layers. The order of the additions
/// depends only on the sizes and on the size of the stream's workspace, which holds the partial
/// sums of a tall matrix. Requires at least one row. Capture-safe.
void column_sums(CudaStream stream, ColumnSums const& args);

}  // namespace msstream::ops::kernels
