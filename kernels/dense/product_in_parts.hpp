// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense/product.hpp"
#include "dense/tall_product.hpp"

namespace msstream::ops::kernels {

/// Computes a matrix product without an epilogue, whose sum over k is cut into parts. With one part
/// the function is the same as try_product().
///
/// Several parts must be those that plan_parts() returns for the batch. They require d = a · bᵀ
/// with packed a [m, k] and b [n, k] as cuBLASLt sees them, and a workspace of workspace_bytes()
/// bytes. All parts of equal length are computed by one batched product, a shorter last part by
/// another, both with results of float32, and a kernel adds their results, first part first, and
/// rounds the sums to the type of the result once. Capture-safe.
void product_in_parts(CudaStream stream,
                      MatrixProduct const& product,
                      SumParts parts,
                      void* workspace);

}  // namespace msstream::ops::kernels
