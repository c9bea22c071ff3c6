// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "common/real_types.hpp"
#include "common/widened_host.hpp"
#include "dense/dense.hpp"
#include "dense/eigen_matrix.hpp"
#include "elementwise/math.hpp"
#include "elementwise/unary_math.hpp"

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

/// Replaces the elements of a row by their gelu_tanh, and keeps them in `sums`.
void gelu_row(float* row, std::int64_t columns, float* sums) {
  for (std::int64_t column = 0; column < columns; ++column) {
    sums[column] = row[column];
    row[column] = GeluByTangent{}(row[column]);
  }
}

void column_sums(float const* values, std::int64_t rows, std::int64_t columns, float* sums) {
  sum_rows(sums, columns, rows, [=](std::int64_t row) {
    add_row(sums, values + row * columns, columns);
  });
}

}  // namespace

void dense(HostStream stream, DenseArgs const& args) {
  require_real_type("dense: an input", args.dtype);
  stream.run([args] {
    auto const inputs_of_all = (args.shared_input ? 1 : args.layers) * args.batch * args.inputs;
    auto const weights = args.layers * args.inputs * args.outputs;
    Widened const all_inputs(args.input, inputs_of_all, args.dtype);
    Widened const all_weights(args.weight, weights, args.dtype);
    Widened const all_biases(args.bias, args.layers * args.outputs, args.dtype);
    auto const outputs_of_all = args.layers * args.batch * args.outputs;
    bool const is_gelu = args.activation == Activation::gelu_tanh;
    Narrowed all_outputs(args.output, outputs_of_all, args.dtype);
    Narrowed all_sums(args.pre_activation, is_gelu ? outputs_of_all : 0, args.dtype);
    for (std::int64_t layer = 0; layer < args.layers; ++layer) {
      auto const first_row = layer * args.batch;
      auto const* const input =
          all_inputs.data() + (args.shared_input ? 0 : first_row * args.inputs);
      auto const* const weight = all_weights.data() + layer * args.inputs * args.outputs;
      auto* const output = all_outputs.data() + first_row * args.outputs;
      matrix(output, args.batch, args.outputs).noalias() =
          matrix(input, args.batch, args.inputs) * matrix(weight, args.inputs, args.outputs);
      for (std::int64_t row = 0; row < args.batch; ++row) {
        float* const outputs = output + row * args.outputs;
        if (args.bias != nullptr) {
          add_row(outputs, all_biases.data() + layer * args.outputs, args.outputs);
        }
        if (args.activation == Activation::relu) {
          rectify_row(outputs, args.outputs);
        } else if (is_gelu) {
          gelu_row(outputs, args.outputs, all_sums.data() + (first_row + row) * args.outputs);
        }
      }
    }
  });
}

void dense_input_gradient(HostStream stream, DenseInputGradientArgs const& args) {
  require_real_type("dense_input_gradient: a gradient", args.dtype);
  stream.run([args] {
    auto const rows = args.layers * args.batch;
    Widened const gradients(args.output_gradient, rows * args.outputs, args.dtype);
    Widened const weights(args.weight, args.layers * args.inputs * args.outputs, args.dtype);
    Widened const added(args.added, rows * args.inputs, args.dtype);
    Narrowed input_gradients(args.input_gradient, rows * args.inputs, args.dtype);
    for (std::int64_t layer = 0; layer < args.layers; ++layer) {
      auto const first_row = layer * args.batch;
      auto const* const weight = weights.data() + layer * args.inputs * args.outputs;
      matrix(input_gradients.data() + first_row * args.inputs, args.batch, args.inputs).noalias() =
          matrix(gradients.data() + first_row * args.outputs, args.batch, args.outputs) *
          matrix(weight, args.inputs, args.outputs).transpose();
    }
    for (std::int64_t row = 0; added.data() != nullptr && row < rows; ++row) {
      auto const first = row * args.inputs;
      add_row(input_gradients.data() + first, added.data() + first, args.inputs);
    }
  });
}

std::size_t dense_weight_gradient_workspace_bytes(HostStream, DenseWeightGradientArgs const&) {
  return 0;
}

void dense_weight_gradient(HostStream stream, DenseWeightGradientArgs const& args) {
  require_real_type("dense_weight_gradient: an input", args.dtype);
  stream.run([args] {
    auto const inputs_of_all = (args.shared_input ? 1 : args.layers) * args.batch * args.inputs;
    Widened const inputs(args.input, inputs_of_all, args.dtype);
    Widened const gradients(
        args.output_gradient, args.layers * args.batch * args.outputs, args.dtype);
    for (std::int64_t layer = 0; layer < args.layers; ++layer) {
      auto const first_row = layer * args.batch;
      auto const* const input = inputs.data() + (args.shared_input ? 0 : first_row * args.inputs);
      auto const* const output_gradient = gradients.data() + first_row * args.outputs;
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
