// SPDX-License-Identifier: Apache-2.0
#include "dense/product_in_parts.hpp"
#include "elementwise/reduce.hpp"

namespace msstream::ops::kernels {

void product_in_parts(CudaStream stream,
                      MatrixProduct const& product,
                      SumParts parts,
                      void* workspace) {
  if (parts.count == 1) {
    // The result is true, because cuBLASLt refuses no product without an epilogue.
    (void)try_product(stream, product);
    return;
  }
  // Each part of the sum over k is one contiguous range of both operands, because k is their
  // slowest dimension.
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
    // The last part of the sum may be shorter and is then a product of its own. plan_parts()
    // divides the products of a batch evenly, so the batch has one product if the last part is
    // shorter.
    MatrixProduct rest = product;
    rest.a = advanced(product.a, equal * front.stride_a, product.operands);
    rest.b = advanced(product.b, equal * front.stride_b, product.operands);
    rest.d = results + equal * result;
    rest.k = product.k - equal * parts.length;
    (void)try_product(stream, rest);
  }
  // The sums of the parts are added with one thread per element, without a workspace, because there
  // are only few parts.
  reduce_axis(stream,
              {.reduction = Reduction::sum,
               .view = {product.batch, parts.count, result},
               .factor = 1.0F,
               .input = results,
               .workspace = nullptr,
               .output = static_cast<float*>(product.d)});
}

}  // namespace msstream::ops::kernels
