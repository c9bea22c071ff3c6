// SPDX-License-Identifier: Apache-2.0
#include "common/vector_map.cuh"
#include "dense/matmul.hpp"
#include "dense/product_in_parts.hpp"

#include <cstddef>

namespace msstream::ops::kernels {

namespace {

bool is_tall(MatmulArgs const& args) {
  return args.transpose_left && !args.transpose_right;
}

TallProduct tall_product(MatmulArgs const& args) {
  return {args.inner, args.rows, args.columns, args.batch, args.shared_left || args.shared_right};
}

}  // namespace

std::size_t matmul_workspace_bytes(CudaStream, MatmulArgs const& args) {
  return is_tall(args) ? workspace_bytes(tall_product(args)) : 0;
}

void matmul(CudaStream stream, MatmulArgs const& args) {
  auto const count = args.batch * args.rows * args.columns;
  if (count == 0) {
    return;
  }
  if (args.inner == 0) {
    set_to_zero(stream, args.product, count, args.result);
    return;
  }
  product_in_parts(stream,
                   {.a = args.right,
                    .b = args.left,
                    .d = args.product,
                    .m = args.columns,
                    .n = args.rows,
                    .k = args.inner,
                    .transpose_a = args.transpose_right ? CUBLAS_OP_T : CUBLAS_OP_N,
                    .transpose_b = args.transpose_left ? CUBLAS_OP_T : CUBLAS_OP_N,
                    .batch = args.batch,
                    .stride_a = args.shared_right ? 0 : args.inner * args.columns,
                    .stride_b = args.shared_left ? 0 : args.rows * args.inner,
                    .factor = args.factor,
                    .operands = args.operands,
                    .result = args.result},
                   is_tall(args) ? plan_parts(tall_product(args)) : SumParts{1, args.inner},
                   args.workspace);
}

}  // namespace msstream::ops::kernels
