// SPDX-License-Identifier: Apache-2.0
#include "elementwise_math.hpp"

#include <msstream/ops/kernels/dense.hpp>

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes its own AVX-512 intrinsics for uninitialised; they are inlined into Eigen's
// products.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#include <algorithm>

namespace msstream::ops::kernels {

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<Matrix const> matrix(float const* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns};
}
Eigen::Map<Matrix> matrix(float* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns};
}

void add_row(float* row, float const* other, std::int64_t columns) {
  for (std::int64_t column = 0; column < columns; ++column) {
    row[column] += other[column];
  }
}

void rectify_row(float* row, std::int64_t columns) {
  for (std::int64_t column = 0; column < columns; ++column) {
    row[column] = rectify(row[column]);
  }
}

void column_sums(float const* values, std::int64_t rows, std::int64_t columns, float* sums) {
  std::fill_n(sums, columns, 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    add_row(sums, values + row * columns, columns);
  }
}

}  // namespace

void dense(HostStream stream, DenseArgs const& args) {
  stream.run([args] {
    matrix(args.output, args.batch, args.outputs).noalias() =
        matrix(args.input, args.batch, args.inputs) *
        matrix(args.weight, args.inputs, args.outputs);
    for (std::int64_t row = 0; row < args.batch; ++row) {
      float* const outputs = args.output + row * args.outputs;
      if (args.bias != nullptr) {
        add_row(outputs, args.bias, args.outputs);
      }
      if (args.activation == Activation::relu) {
        rectify_row(outputs, args.outputs);
      }
    }
  });
}

void relu_gradient(HostStream stream, ReluGradientArgs const& args) {
  stream.run([args] {
    for (std::int64_t i = 0; i < args.count; ++i) {
      float const gradient = args.output_gradient[i];
      args.masked[i] = args.output[i] > 0.0F ? gradient : 0.0F;
    }
  });
}

void dense_input_gradient(HostStream stream, DenseInputGradientArgs const& args) {
  stream.run([args] {
    matrix(args.input_gradient, args.batch, args.inputs).noalias() =
        matrix(args.output_gradient, args.batch, args.outputs) *
        matrix(args.weight, args.inputs, args.outputs).transpose();
  });
}

void dense_weight_gradient(HostStream stream, DenseWeightGradientArgs const& args) {
  stream.run([args] {
    matrix(args.weight_gradient, args.inputs, args.outputs).noalias() =
        matrix(args.input, args.batch, args.inputs).transpose() *
        matrix(args.output_gradient, args.batch, args.outputs);
    if (args.bias_gradient != nullptr) {
      column_sums(args.output_gradient, args.batch, args.outputs, args.bias_gradient);
    }
  });
}

void matmul(HostStream stream, MatmulArgs const& args) {
  stream.run([args] {
    matrix(args.product, args.rows, args.columns).noalias() =
        matrix(args.left, args.rows, args.inner) * matrix(args.right, args.inner, args.columns);
  });
}

}  // namespace msstream::ops::kernels
