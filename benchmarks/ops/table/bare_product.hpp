// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bare.hpp"

#include <msstream/base/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace benchmarks::table {

/// The product of two row-major matrices, op(left) · op(right) [rows, columns], in device memory,
/// where op transposes or does nothing. All are of one type, or the product of float32; sums are
/// float32.
struct BareProduct {
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;
  ms::DType dtype;
  void const* left;
  void const* right;
  void* product;
  void* workspace;
  std::size_t workspace_bytes;
  bool transpose_left = false;
  bool transpose_right = false;
  bool is_float32 = false;  ///< the product
  /// The number of algorithms, the first that cuBLASLt ranks, of which the fastest is taken by
  /// measurement.
  int algorithms = 1;
};

/// Returns a function that enqueues the product on the stream by cuBLASLt alone. The choice of one
/// of several algorithms waits for the stream. This header includes no CUDA header.
[[nodiscard]] std::function<void()> bare_product(ms::Cuda::native_stream stream,
                                                 BareProduct const& of);

}  // namespace benchmarks::table
