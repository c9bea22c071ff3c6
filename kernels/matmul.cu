// SPDX-License-Identifier: Apache-2.0
#include "dense_product.hpp"
#include "elementwise_pack.cuh"

#include <msstream/ops/kernels/matmul.hpp>

namespace msstream::ops::kernels {

void matmul(CudaStream stream, MatmulArgs const& args) {
  auto const count = args.batch * args.rows * args.columns;
  if (count == 0) {
    return;
  }
  if (args.inner == 0) {
    set_to_zero(stream, args.product, count);
    return;
  }
  // The plain product: refused by none.
  (void)try_product(stream,
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
                     .factor = args.factor});
}

}  // namespace msstream::ops::kernels
