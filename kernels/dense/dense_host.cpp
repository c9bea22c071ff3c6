// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "dense/dense.hpp"
#include "dense/eigen_matrix.hpp"
#include "elementwise/math.hpp"

#include <cstddef>

namespace msstream::ops::kernels {

namespace {

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
  sum_rows(sums, columns, rows, [=](std::int64_t row) {
    add_row(sums, values + row * columns, columns);
  });
}

}  // namespace

void dense(HostStream stream, DenseArgs const& args) {
  stream.run([args] {
    for (std::int64_t layer = 0; layer < args.layers; ++layer) {
      auto const first_row = layer * args.batch;
      auto const* const input = args.input + (args.shared_input ? 0 : first_row * args.inputs);
      auto* const output = args.output + first_row * args.outputs;
      matrix(output, args.batch, args.outputs).noalias() =
          matrix(input, args.batch, args.inputs) *
          matrix(args.weight + layer * args.inputs * args.outputs, args.inputs, args.outputs);
      for (std::int64_t row = 0; row < args.batch; ++row) {
        float* const outputs = output + row * args.outputs;
        if (args.bias != nullptr) {
          add_row(outputs, args.bias + layer * args.outputs, args.outputs);
        }
        if (args.activation == Activation::relu) {
          rectify_row(outputs, args.outputs);
        }
      }
    }
  });
}

void dense_input_gradient(HostStream stream, DenseInputGradientArgs const& args) {
  stream.run([args] {
    for (std::int64_t layer = 0; layer < args.layers; ++layer) {
      auto const first_row = layer * args.batch;
      matrix(args.input_gradient + first_row * args.inputs, args.batch, args.inputs).noalias() =
          matrix(args.output_gradient + first_row * args.outputs, args.batch, args.outputs) *
          matrix(args.weight + layer * args.inputs * args.outputs, args.inputs, args.outputs)
              .transpose();
    }
  });
}

std::size_t dense_weight_gradient_workspace_bytes(HostStream, DenseWeightGradientArgs const&) {
  return 0;
}

void dense_weight_gradient(HostStream stream, DenseWeightGradientArgs const& args) {
  stream.run([args] {
    for (std::int64_t layer = 0; layer < args.layers; ++layer) {
      auto const first_row = layer * args.batch;
      auto const* const input = args.input + (args.shared_input ? 0 : first_row * args.inputs);
      auto const* const output_gradient = args.output_gradient + first_row * args.outputs;
      matrix(args.weight_gradient + layer * args.inputs * args.outputs, args.inputs, args.outputs)
          .noalias() = matrix(input, args.batch, args.inputs).transpose() *
                       matrix(output_gradient, args.batch, args.outputs);
      if (args.bias_gradient != nullptr) {
        column_sums(
            output_gradient, args.batch, args.outputs, args.bias_gradient + layer * args.outputs);
      }
    }
  });
}

}  // namespace msstream::ops::kernels
