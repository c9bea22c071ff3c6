// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cublasLt.h>

#include <cstdint>

namespace msstream::ops::kernels {

/// d = op(a) · op(b) [m, n] with an epilogue, as cuBLASLt sees it: packed column-major float32.
///
/// A row-major matrix is the transpose of the column-major one in the same memory: the row-major
/// x · y is asked for as d = y · x, with the rows of the result as m = its columns.
///
/// A batch of them is one behind the other in `d`, and in `a` and `b` at their strides, 0 for one
/// matrix that serves all; a bias is that of each [batch, m].
struct MatrixProduct {
  float const* a;
  float const* b;
  float* d;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;  ///< m, n and k are at least 1
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float const* bias = nullptr;  ///< [m]; written when the epilogue is a bias gradient
  std::int64_t batch = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  float factor = 1.0F;  ///< of the product, before the epilogue
};

/// Puts the product on the stream; returns false, with nothing done, if cuBLASLt offers no
/// algorithm for the epilogue. Throws RuntimeError for any other failure, the want of an algorithm
/// for the plain product among them.
///
/// The arithmetic is that of the libraries' precision. The algorithm depends on it, the shape, the
/// epilogue, the device, the size of the workspace and on whether the pointers are aligned to 16
/// bytes, and is chosen once for the process: the bits do not depend on the stream, the thread or
/// who calls first. Thread-safe; after a thread's first call with a shape there is no lock, no
/// heuristic query and no new descriptor. Capture-safe.
[[nodiscard]] bool try_product(CudaStream stream, MatrixProduct const& product);

}  // namespace msstream::ops::kernels
