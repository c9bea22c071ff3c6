// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/vector_map.cuh"
#include "dense/product_in_parts.hpp"
#include "elementwise/reduce.hpp"

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

/// Adds the parts of `count` elements of a batch of products, each of `elements`, first part first.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) add_parts_kernel(
    float const* results, T* sums, std::int64_t parts, std::int64_t elements, std::int64_t count) {
  std::int64_t const i = grid_thread();
  if (i >= count) {
    return;
  }
  std::int64_t const product = i / elements;
  float const* const first = results + product * (parts - 1) * elements + i;
  float sum = first[0];
  for (std::int64_t part = 1; part < parts; ++part) {
    sum += first[part * elements];
  }
  sums[i] = narrowed<T>(sum);
}

/// Adds the parts of products whose result has half precision, and rounds the sums once.
void add_parts(CudaStream stream,
               MatrixProduct const& product,
               std::int64_t parts,
               float const* results) {
  auto const elements = product.m * product.n;
  auto const count = product.batch * elements;
  with_real_type("product_in_parts: a result", product.result, [&](auto type) {
    using T = typename decltype(type)::type;
    add_parts_kernel<<<grid_for(count, kBlockThreads), kBlockThreads, 0, stream.handle>>>(
        results, static_cast<T*>(product.d), parts, elements, count);
  });
  check_launch("product_in_parts");
}

}  // namespace

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
  front.result = DType::float32;
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
    rest.result = DType::float32;
    rest.k = product.k - equal * parts.length;
    (void)try_product(stream, rest);
  }
  if (product.result != DType::float32) {
    add_parts(stream, product, parts.count, results);
    return;
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
