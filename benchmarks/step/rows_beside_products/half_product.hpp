// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace benchmarks {

/// The product of two row-major matrices of bfloat16 in device memory, op(left) · op(right)
/// [rows, columns], where op transposes or does nothing. Sums are float32.
struct HalfProduct {
  void const* left;
  void const* right;
  void* product;
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;
  bool transpose_left = false;
  bool transpose_right = false;
  bool is_float32 = false;  ///< the product
};

/// Enqueues a product by cuBLASLt alone, with the handle and the workspace of the stream's group,
/// by the algorithm that cuBLASLt recommends for so many multiprocessors; for 0, for all. The
/// choices are those of the library's products: sums in parts go through the workspace, and a few
/// bytes of workspace for a counter are not given.
void enqueue(msstream::CudaStream stream, HalfProduct const& product, int multiprocessors);

}  // namespace benchmarks
