// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "common/widened_host.hpp"
#include "dense/eigen_matrix.hpp"
#include "dense/matmul.hpp"

#include <cstddef>

namespace msstream::ops::kernels {

namespace {

void one_product(MatmulArgs const& args,
                 float const* left_data,
                 float const* right_data,
                 float* product_data) {
  auto product = matrix(product_data, args.rows, args.columns);
  auto const left = args.transpose_left ? matrix(left_data, args.inner, args.rows)
                                        : matrix(left_data, args.rows, args.inner);
  auto const right = args.transpose_right ? matrix(right_data, args.columns, args.inner)
                                          : matrix(right_data, args.inner, args.columns);
  if (args.transpose_left && args.transpose_right) {
    product.noalias() = args.factor * left.transpose() * right.transpose();
  } else if (args.transpose_left) {
    product.noalias() = args.factor * left.transpose() * right;
  } else if (args.transpose_right) {
    product.noalias() = args.factor * left * right.transpose();
  } else {
    product.noalias() = args.factor * left * right;
  }
}

}  // namespace

std::size_t matmul_workspace_bytes(HostStream, MatmulArgs const&) {
  return 0;
}

void matmul(HostStream stream, MatmulArgs const& args) {
  require_real_type("matmul: an operand", args.operands);
  stream.run([args] {
    auto const of_left = args.rows * args.inner;
    auto const of_right = args.inner * args.columns;
    auto const of_product = args.rows * args.columns;
    Widened const left(args.left, (args.shared_left ? 1 : args.batch) * of_left, args.operands);
    Widened const right(args.right, (args.shared_right ? 1 : args.batch) * of_right, args.operands);
    Narrowed product(args.product, args.batch * of_product, args.result);
    for (std::int64_t i = 0; i < args.batch; ++i) {
      one_product(args,
                  left.data() + (args.shared_left ? 0 : i * of_left),
                  right.data() + (args.shared_right ? 0 : i * of_right),
                  product.data() + i * of_product);
    }
  });
}

}  // namespace msstream::ops::kernels
