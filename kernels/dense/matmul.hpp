// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Computes product[b] = factor * op(left[b]) · op(right[b]) for b < batch, where op transposes its
/// matrix or leaves it unchanged. All arrays are row-major. Products of half precision are added in
/// float32 and rounded once. On CUDA, leftᵀ · right with a long sum is computed in the parts that
/// plan_parts() of tall_product.hpp returns.
struct MatmulArgs {
  void const* left;   ///< [batch, rows, inner], or [batch, inner, rows] if transposed
  void const* right;  ///< [batch, inner, columns], or [batch, columns, inner] if transposed
  void* product;      ///< [batch, rows, columns]
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;
  bool transpose_left = false;
  bool transpose_right = false;
  std::int64_t batch = 1;
  bool shared_left = false;   ///< one left matrix for the whole batch
  bool shared_right = false;  ///< one right matrix for the whole batch
  float factor = 1.0F;
  void* workspace = nullptr;        ///< matmul_workspace_bytes() bytes, 4-byte aligned
  DType operands = DType::float32;  ///< float32, float16 or bfloat16
  DType result = DType::float32;    ///< float32, or the type of the operands
};
/// Returns the bytes of workspace that matmul() needs, from the sizes in `args` alone, without a
/// query of the device. Returns 0 on the host, and where the sum has one part.
std::size_t matmul_workspace_bytes(HostStream stream, MatmulArgs const& args);
std::size_t matmul_workspace_bytes(CudaStream stream, MatmulArgs const& args);
void matmul(HostStream stream, MatmulArgs const& args);
void matmul(CudaStream stream, MatmulArgs const& args);

}  // namespace msstream::ops::kernels
