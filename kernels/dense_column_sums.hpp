// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// sums[c] = sum over the rows of weights[row] * matrix[row, c], row-major float32; for each of
/// `layers` layers, which lie one behind the other in every array.
struct ColumnSums {
  float const* matrix;             ///< [layers, rows, columns]
  float const* weights = nullptr;  ///< [layers, rows], or null for ones
  std::int64_t rows;
  std::int64_t columns;
  float* sums;                  ///< [layers, columns]
  float* weight_sum = nullptr;  ///< [layers], the sum of the weights, or null if it is not wanted
  std::int64_t layers = 1;
  bool shared_matrix = false;  ///< one [rows, columns] for all layers
};

/// Adds in an order that depends only on the sizes and on the size of the stream's workspace, which
/// holds the partial sums of a tall matrix. At least one row. Capture-safe.
void column_sums(CudaStream stream, ColumnSums const& args);

}  // namespace msstream::ops::kernels
