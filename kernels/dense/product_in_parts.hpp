// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense/product.hpp"
#include "dense/tall_product.hpp"

namespace msstream::ops::kernels {

/// Computes a product without an epilogue, whose sum over k is cut into parts. With one part it is
/// try_product().
///
/// Several parts must be those of plan_parts() for the batch. They need d = a · bᵀ with a [m, k]
/// and b [n, k] as cuBLASLt sees them, packed, and a workspace of workspace_bytes() bytes. All
/// parts of equal length are one product, the rest is another, and a kernel adds their results,
/// front to back. Capture-safe.
void product_in_parts(CudaStream stream,
                      MatrixProduct const& product,
                      SumParts parts,
                      void* workspace);

}  // namespace msstream::ops::kernels
