// SPDX-License-Identifier: Apache-2.0
#include "dense/product_in_parts.hpp"
#include "elementwise/reduce.hpp"

namespace msstream::ops::kernels {

void product_in_parts(CudaStream stream,
                      MatrixProduct const& product,
                      SumParts parts,
                      void* workspace) {
  if (parts.count == 1) {
    (void)try_product(stream, product);  // true: no product without an epilogue is refused
    return;
  }
  // Each part of k is one contiguous range of both operands, because k is their slowest dimension.
  auto* const results = static_cast<float*>(workspace);  // [batch, parts, m * n]
  auto const result = product.m * product.n;
  auto const equal = product.k / parts.length;
  MatrixProduct front = product;
  front.d = results;
  front.k = parts.length;
  front.batch = product.batch * equal;
  front.stride_a = parts.length * product.m;
  front.stride_b = parts.length * product.n;
  (void)try_product(stream, front);
  if (equal < parts.count) {
    // Computes the last, shorter part. plan_parts() cuts the products of a batch evenly, so there
    // is only one product here.
    MatrixProduct rest = product;
    rest.a += equal * front.stride_a;
    rest.b += equal * front.stride_b;
    rest.d = results + equal * result;
    rest.k = product.k - equal * parts.length;
    (void)try_product(stream, rest);
  }
  // Adds the parts with one thread per element, without a workspace, because there are only few
  // parts.
  reduce_axis(stream,
              {.reduction = Reduction::sum,
               .view = {product.batch, parts.count, result},
               .factor = 1.0F,
               .input = results,
               .workspace = nullptr,
               .output = product.d});
}

}  // namespace msstream::ops::kernels
