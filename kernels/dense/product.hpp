// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/fp8.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cublasLt.h>

#include <cstdint>
#include <optional>

namespace msstream::ops::kernels {

/// The operands of a product of 8-bit floats. Not both formats may be e5m2.
struct Fp8Operands {
  Fp8Format a;
  Fp8Format b;
  float const* scale_a;  ///< device memory; the product is multiplied by both
  float const* scale_b;
};

/// The arguments of try_product(): d = op(a) · op(b) [m, n] with an epilogue, in the terms of
/// cuBLASLt: packed and column-major. Products of half-precision matrices are added in float32.
///
/// A row-major matrix is the transpose of the column-major matrix in the same memory. A row-major
/// product x · y is therefore requested as d = y · x, where m, the rows of the column-major result,
/// is the number of columns of the row-major one.
///
/// The products of a batch are adjacent in `d`, and `stride_a` and `stride_b` apart in `a` and `b`;
/// a stride of 0 means one matrix for all products. A bias is then [batch, m].
struct MatrixProduct {
  void const* a;  ///< of `operands`, as is `b`
  void const* b;
  void* d;  ///< of `result`
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;  ///< m, n and k are at least 1
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  /// [m], of `result`; an output if the epilogue is a bias gradient.
  void const* bias = nullptr;
  /// [m, n], of `result`, aligned to 16 bytes: set to what the epilogue's GELU is applied to, if
  /// the epilogue is one with an auxiliary matrix. `m` is then a multiple of kAuxMultiple.
  void* aux = nullptr;
  std::int64_t batch = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  float factor = 1.0F;  ///< scales the product, before the epilogue
  /// A matrix that is added to the product before it is rounded, as `d` in type, shape and strides;
  /// `d` itself is allowed. Null: nothing is added.
  void const* added = nullptr;
  DType operands = DType::float32;  ///< float32, float16 or bfloat16
  DType result = DType::float32;    ///< float32, or the type of the operands
  /// If set, `a` and `b` are matrices of 8-bit floats, whatever `operands` says, and the result may
  /// be of float32, float16 or bfloat16. Then `a` must be transposed and `b` not, and m and k must
  /// be multiples of 16.
  std::optional<Fp8Operands> fp8 = {};
};

/// The divisor that cuBLASLt demands of the rows of an auxiliary matrix of GELU.
inline constexpr std::int64_t kAuxMultiple = 8;

/// Returns the address that lies `elements` elements of the type behind an address.
[[nodiscard]] inline void const* advanced(void const* from, std::int64_t elements, DType dtype) {
  return static_cast<char const*>(from) + elements * static_cast<std::int64_t>(bytes_of(dtype));
}
[[nodiscard]] inline void* advanced(void* from, std::int64_t elements, DType dtype) {
  return static_cast<char*>(from) + elements * static_cast<std::int64_t>(bytes_of(dtype));
}

/// Enqueues a matrix product on the stream and returns true. If cuBLASLt offers no algorithm for
/// the epilogue, or for the product of 8-bit floats, enqueues nothing and returns false. Throws
/// RuntimeError for any other failure, including a missing algorithm for any other product without
/// an epilogue.
///
/// Products of 8-bit floats add up in float32 at regular intervals: the faster mode, in which the
/// tensor cores keep a whole sum in fewer bits, stays off, because its error grows with the length
/// of the sum.
///
/// The precision of products of float32 is that of the stream's libraries. The algorithm depends on
/// the precision, the shape, the epilogue, the device, the size of the workspace and on whether the
/// pointers are aligned to 16 bytes. It is chosen once per process, so that the bits of the result
/// do not depend on the stream, the thread or the order of calls. Thread-safe. After a thread's
/// first call with a shape, calls take no lock, make no heuristic query and create no descriptor.
/// Capture-safe.
[[nodiscard]] bool try_product(CudaStream stream, MatrixProduct const& product);

}  // namespace msstream::ops::kernels
