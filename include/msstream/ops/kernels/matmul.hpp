// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// product[b] = factor * op(left[b]) · op(right[b]) for b < batch, op being the transpose or
/// nothing. Row-major float32. On CUDA leftᵀ · right with a long sum is cut into the parts of
/// plan_parts(), of tall_product.hpp.
struct MatmulArgs {
  float const* left;   ///< a batch of [rows, inner], or of [inner, rows] if transposed
  float const* right;  ///< a batch of [inner, columns], or of [columns, inner] if transposed
  float* product;      ///< [batch, rows, columns]
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;
  bool transpose_left = false;
  bool transpose_right = false;
  std::int64_t batch = 1;
  bool shared_left = false;   ///< one matrix for the whole batch
  bool shared_right = false;  ///< likewise
  float factor = 1.0F;
  void* workspace = nullptr;  ///< matmul_workspace_bytes() of it, aligned to 4
};
/// Asks no device, and reads the sizes in `args` alone. 0 on the host, and where the sum has one
/// part.
std::size_t matmul_workspace_bytes(HostStream stream, MatmulArgs const& args);
std::size_t matmul_workspace_bytes(CudaStream stream, MatmulArgs const& args);
void matmul(HostStream stream, MatmulArgs const& args);
void matmul(CudaStream stream, MatmulArgs const& args);

}  // namespace msstream::ops::kernels
