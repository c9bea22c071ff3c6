// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Computes the transpose of each matrix of a batch: output[b, column, row] = input[b, row,
/// column]. The output must not overlap the input.
struct TransposeArgs {
  float const* input;  ///< [batch, rows, columns]
  float* output;       ///< [batch, columns, rows]
  std::int64_t batch;
  std::int64_t rows;
  std::int64_t columns;
};
void transpose(HostStream stream, TransposeArgs const& args);
void transpose(CudaStream stream, TransposeArgs const& args);

/// Computes output = input + factor * I, where I is the identity matrix. The output may be the
/// input.
struct AddIdentityArgs {
  float const* input;  ///< [width, width]
  float* output;       ///< [width, width]
  std::int64_t width;
  float factor;
};
void add_identity(HostStream stream, AddIdentityArgs const& args);
void add_identity(CudaStream stream, AddIdentityArgs const& args);

}  // namespace msstream::ops::kernels
