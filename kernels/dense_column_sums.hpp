// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// sums[c] = sum over the rows of weights[row] * matrix[row, c], row-major float32.
struct ColumnSums {
  float const* matrix;             ///< [rows, columns]
  float const* weights = nullptr;  ///< [rows], or null for ones
  std::int64_t rows;
  std::int64_t columns;
  float* sums;                  ///< [columns]
  float* weight_sum = nullptr;  ///< the sum of the weights, or null if it is not wanted
};

/// Adds in an order that depends only on the sizes and on the size of the stream's workspace, which
/// holds the partial sums of a tall matrix. At least one row. Capture-safe.
void column_sums(CudaStream stream, ColumnSums const& args);

}  // namespace msstream::ops::kernels
