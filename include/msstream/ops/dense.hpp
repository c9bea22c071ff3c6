// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/dense.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace msstream::ops {

/// activation(input · weight + bias): input [batch, inputs], weight [inputs, outputs], bias
/// [outputs] → [batch, outputs]. float32 throughout, by cuBLASLt with the bias and the activation
/// in its epilogue, or Eigen. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument when the shapes do not fit.
template <Runtime R>
[[nodiscard]] Tensor<float, R> dense(Tensor<float, R> const& input,
                                     Tensor<float, R> const& weight,
                                     Tensor<float, R> const& bias,
                                     Activation activation = Activation::none) {
  require(input.shape().rank() == 2 && weight.shape().rank() == 2 &&
              input.shape()[1] == weight.shape()[0] && bias.count() == weight.shape()[1],
          "dense: input ",
          input.shape(),
          ", weight ",
          weight.shape(),
          ", bias ",
          bias.shape(),
          "; expected [batch, inputs], [inputs, outputs], [outputs]");
  Tensor<float, R> output(input.device(), {input.shape()[0], weight.shape()[1]});
  kernels::DenseArgs const args{input.data(),
                                weight.data(),
                                bias.data(),
                                output.data(),
                                input.shape()[0],
                                weight.shape()[0],
                                weight.shape()[1],
                                activation};
  issue("dense", reads(input, weight, bias), writes(output), [args](auto stream) {
    kernels::dense(stream, args);
  });
  return output;
}

template <Runtime R>
struct DenseGradients {
  std::optional<Tensor<float, R>> input;
  Tensor<float, R> weight;
  Tensor<float, R> bias;
};

/// The gradients of dense(), from its output and the output's gradient; the input's only if asked
/// for. Throws std::invalid_argument when the shapes do not fit.
template <Runtime R>
[[nodiscard]] DenseGradients<R> dense_gradient(Tensor<float, R> const& input,
                                               Tensor<float, R> const& weight,
                                               Tensor<float, R> const& output,
                                               Activation activation,
                                               Tensor<float, R> const& output_gradient,
                                               bool with_input_gradient) {
  auto const& device = input.device();
  auto const& shape = output.shape();
  require(input.shape().rank() == 2 && weight.shape().rank() == 2 && shape.rank() == 2 &&
              input.shape()[0] == shape[0] && input.shape()[1] == weight.shape()[0] &&
              weight.shape()[1] == shape[1] && output_gradient.shape() == shape,
          "dense_gradient: input ",
          input.shape(),
          ", weight ",
          weight.shape(),
          ", output ",
          shape,
          ", output gradient ",
          output_gradient.shape());
  std::int64_t const batch = input.shape()[0];
  std::int64_t const inputs = weight.shape()[0];
  std::int64_t const outputs = weight.shape()[1];

  Tensor<float, R> gradient = output_gradient;
  if (activation == Activation::relu) {
    gradient = Tensor<float, R>(device, output.shape());
    kernels::ReluGradientArgs const args{
        output.data(), output_gradient.data(), gradient.data(), output.count()};
    issue("relu_gradient", reads(output, output_gradient), writes(gradient), [args](auto stream) {
      kernels::relu_gradient(stream, args);
    });
  }
  DenseGradients<R> gradients{{}, {device, weight.shape()}, {device, {outputs}}};
  if (with_input_gradient) {
    gradients.input.emplace(device, input.shape());
    kernels::DenseInputGradientArgs const args{
        gradient.data(), weight.data(), gradients.input->data(), batch, inputs, outputs};
    issue("dense_input_gradient",
          reads(gradient, weight),
          writes(*gradients.input),
          [args](auto stream) { kernels::dense_input_gradient(stream, args); });
  }
  kernels::DenseWeightGradientArgs const args{input.data(),
                                              gradient.data(),
                                              gradients.weight.data(),
                                              gradients.bias.data(),
                                              batch,
                                              inputs,
                                              outputs};
  issue("dense_weight_gradient",
        reads(input, gradient),
        writes(gradients.weight, gradients.bias),
        [args](auto stream) { kernels::dense_weight_gradient(stream, args); });
  return gradients;
}

/// left · right: [rows, inner], [inner, columns] → [rows, columns], float32.
template <Runtime R>
[[nodiscard]] Tensor<float, R> matmul(Tensor<float, R> const& left, Tensor<float, R> const& right) {
  require(
      left.shape().rank() == 2 && right.shape().rank() == 2 && left.shape()[1] == right.shape()[0],
      "matmul: ",
      left.shape(),
      " by ",
      right.shape());
  Tensor<float, R> product(left.device(), {left.shape()[0], right.shape()[1]});
  kernels::MatmulArgs const args{left.data(),
                                 right.data(),
                                 product.data(),
                                 left.shape()[0],
                                 left.shape()[1],
                                 right.shape()[1]};
  issue("matmul", reads(left, right), writes(product), [args](auto stream) {
    kernels::matmul(stream, args);
  });
  return product;
}

}  // namespace msstream::ops
