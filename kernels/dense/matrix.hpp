// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Computes output[b, column, row] = input[b, row, column]. May not be in place.
struct TransposeArgs {
  float const* input;  ///< [batch, rows, columns]
  float* output;       ///< [batch, columns, rows]
  std::int64_t batch;
  std::int64_t rows;
  std::int64_t columns;
};
void transpose(HostStream stream, TransposeArgs const& args);
void transpose(CudaStream stream, TransposeArgs const& args);

/// Computes output = input + factor * I, where I is the identity matrix. May be in place.
struct AddIdentityArgs {
  float const* input;  ///< [width, width]
  float* output;       ///< [width, width]
  std::int64_t width;
  float factor;
};
void add_identity(HostStream stream, AddIdentityArgs const& args);
void add_identity(CudaStream stream, AddIdentityArgs const& args);

}  // namespace msstream::ops::kernels
