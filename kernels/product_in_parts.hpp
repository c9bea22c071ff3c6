// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense_product.hpp"

#include <msstream/ops/kernels/tall_product.hpp>

namespace msstream::ops::kernels {

/// A product without an epilogue, its sum over k in parts. One part: try_product().
///
/// More parts, which are those of plan_parts() for the batch, need d = a · bᵀ, a [m, k] and b [n,
/// k] as cuBLASLt sees them, packed, and workspace_bytes() of workspace. All parts of one length
/// are one product, the rest is another, and a kernel adds their results, front to back.
/// Capture-safe.
void product_in_parts(CudaStream stream,
                      MatrixProduct const& product,
                      SumParts parts,
                      void* workspace);

}  // namespace msstream::ops::kernels
