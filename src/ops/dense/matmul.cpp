// SPDX-License-Identifier: Apache-2.0
#include "dense/matmul.hpp"

#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops::detail {
namespace {

/// The sizes of a matrix, or of a batch of matrices.
struct MatmulOperand {
  std::int64_t batch;
  std::int64_t rows;  ///< rows of one matrix as it enters the product, after a transpose
  std::int64_t columns;

  [[nodiscard]] static MatmulOperand of(Shape const& shape, bool transposed) {
    require(shape.rank() == 2 || shape.rank() == 3,
            "matmul: an operand of shape {}; expected [rows, columns] or [batch, rows, columns]",
            shape);
    auto rows = shape[shape.rank() - 2];
    auto columns = shape[shape.rank() - 1];
    if (transposed) {
      std::swap(rows, columns);
    }
    return {shape.rank() == 3 ? shape[0] : 1, rows, columns};
  }
};

/// Returns the sum over a batch of float32 matrices, rounded to a type.
[[nodiscard]] AnyTensor sum_of_batch(AnyTensor const& batch,
                                     DType to,
                                     std::source_location issued_at) {
  return cast(sum(Floats(batch), 0, {}, issued_at).any(), to, issued_at);
}

}  // namespace

AnyTensor matmul(AnyTensor const& left,
                 AnyTensor const& right,
                 MatmulOptions const& options,
                 DType result,
                 std::source_location issued_at) {
  auto const first = MatmulOperand::of(left.shape(), options.transpose_left);
  auto const second = MatmulOperand::of(right.shape(), options.transpose_right);
  bool const batched = left.shape().rank() == 3 || right.shape().rank() == 3;
  bool const shared_left = batched && left.shape().rank() == 2;
  bool const shared_right = batched && right.shape().rank() == 2;
  auto const batch = shared_left ? second.batch : first.batch;
  require(left.dtype() == right.dtype() && first.columns == second.rows &&
              (shared_right || second.batch == batch),
          "matmul: {}{} by {}{}",
          left.shape(),
          options.transpose_left ? " transposed" : "",
          right.shape(),
          options.transpose_right ? " transposed" : "");
  AnyTensor product(
      left.device(),
      result,
      batched ? Shape{batch, first.rows, second.columns} : Shape{first.rows, second.columns});
  kernels::MatmulArgs args{.left = left.data(),
                           .right = right.data(),
                           .product = product.data(),
                           .rows = first.rows,
                           .inner = first.columns,
                           .columns = second.columns,
                           .transpose_left = options.transpose_left,
                           .transpose_right = options.transpose_right,
                           .batch = batch,
                           .shared_left = shared_left,
                           .shared_right = shared_right,
                           .factor = options.factor,
                           .operands = left.dtype(),
                           .result = result};
  if (shared_right && !options.transpose_left) {
    // Computes one product for the rows of the whole batch instead of one product per matrix.
    args.rows *= batch;
    args.batch = 1;
  }
  auto const& device = left.device();
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::matmul_workspace_bytes(stream, args);
                            }));
  args.workspace = workspace.data();
  issue(
      "matmul",
      reads(left, right),
      workspace.with(writes(product)),
      [args](auto stream) { kernels::matmul(stream, args); },
      {},
      issued_at);
  return product;
}

AnyTensor matmul_left_gradient(AnyTensor const& left,
                               AnyTensor const& right,
                               MatmulOptions const& options,
                               AnyTensor const& product_gradient,
                               std::source_location issued_at) {
  bool const shared = left.shape().rank() == 2 &&
                      (right.shape().rank() == 3 || product_gradient.shape().rank() == 3);
  auto const result = shared ? DType::float32 : left.dtype();
  auto const gradient =
      options.transpose_left
          ? matmul(right,
                   product_gradient,
                   {.transpose_left = options.transpose_right,
                    .transpose_right = true,
                    .factor = options.factor},
                   result,
                   issued_at)
          : matmul(product_gradient,
                   right,
                   {.transpose_right = !options.transpose_right, .factor = options.factor},
                   result,
                   issued_at);
  return shared ? sum_of_batch(gradient, left.dtype(), issued_at) : gradient;
}

AnyTensor matmul_right_gradient(AnyTensor const& left,
                                AnyTensor const& right,
                                MatmulOptions const& options,
                                AnyTensor const& product_gradient,
                                std::source_location issued_at) {
  bool const shared = right.shape().rank() == 2 && product_gradient.shape().rank() == 3;
  if (shared && left.shape().rank() == 3 && !options.transpose_left) {
    // Sums over the rows of the whole batch in a single matrix product.
    auto const rows_of = [](AnyTensor const& batch) {
      auto const& shape = batch.shape();
      return batch.reshaped({shape[0] * shape[1], shape[2]});
    };
    return matmul_right_gradient(
        rows_of(left), right, options, rows_of(product_gradient), issued_at);
  }
  auto const result = shared ? DType::float32 : right.dtype();
  auto const gradient =
      options.transpose_right
          ? matmul(product_gradient,
                   left,
                   {.transpose_left = true,
                    .transpose_right = options.transpose_left,
                    .factor = options.factor},
                   result,
                   issued_at)
          : matmul(left,
                   product_gradient,
                   {.transpose_left = !options.transpose_left, .factor = options.factor},
                   result,
                   issued_at);
  return shared ? sum_of_batch(gradient, right.dtype(), issued_at) : gradient;
}

}  // namespace msstream::ops::detail
