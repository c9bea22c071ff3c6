// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense/dense.hpp"
#include "dlrm_shape.hpp"
#include "half_product.hpp"

#include <msstream/msstream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <vector>

namespace benchmarks {

namespace ms = msstream;

enum class ProductsOf : std::uint8_t { weight_gradients, step };

/// The products of bfloat16 of DCN-v2's cross layers and top layers but the last, one after the
/// other: those of a forward and a backward, or the gradients of the weights alone. Biases,
/// activations and elementwise parts are left out. The operands are random; no product reads
/// another one's result, so that results stay in the range of their operands.
template <ms::Runtime R>
class DcnProducts {
 public:
  DcnProducts(ms::Device<R> const& device, train_dlrm::DlrmShape const& shape, std::int64_t batch) {
    auto const features = shape.dimension * static_cast<std::int64_t>(train_dlrm::kFields + 1);
    for (std::int64_t i = 0; i < shape.cross_layers; ++i) {
      add(device, batch, features, shape.cross_rank);
      add(device, batch, shape.cross_rank, features);
    }
    auto inputs = features;
    for (std::size_t i = 0; i + 1 < shape.top.size(); ++i) {
      add(device, batch, inputs, shape.top[i]);
      inputs = shape.top[i];
    }
  }

  /// Issues the products to the current group: those of the library, or by cuBLASLt alone for so
  /// many multiprocessors.
  void issue(ProductsOf which, std::optional<int> multiprocessors = {}) const {
    if (which == ProductsOf::step) {
      for (auto const& layer : layers_) {
        issue_forward(layer, multiprocessors);
      }
    }
    for (auto const& layer : std::views::reverse(layers_)) {
      if (which == ProductsOf::step) {
        issue_input_gradient(layer, multiprocessors);
      }
      issue_weight_gradient(layer, multiprocessors);
    }
  }

 private:
  using Half = ms::Tensor<ms::bfloat16, R>;
  struct Layer {
    Half input;
    Half weight;
    Half output_gradient;
    Half output;
    Half input_gradient;
    ms::Tensor<float, R> weight_gradient;
    ms::Tensor<std::uint8_t, R> workspace;
    std::int64_t batch;
    std::int64_t inputs;
    std::int64_t outputs;

    [[nodiscard]] ms::ops::kernels::DenseWeightGradientArgs weight_gradient_args() const {
      return {.input = input.data(),
              .output_gradient = output_gradient.data(),
              .weight_gradient = weight_gradient.data(),
              .bias_gradient = nullptr,
              .batch = batch,
              .inputs = inputs,
              .outputs = outputs,
              .workspace = workspace.data(),
              .dtype = ms::DType::bfloat16};
    }
  };

  void add(ms::Device<R> const& device,
           std::int64_t batch,
           std::int64_t inputs,
           std::int64_t outputs) {
    auto const random = [&](ms::Shape const& shape) {
      return ms::ops::random_uniform<ms::bfloat16>(
          device, shape, ms::RandomKey(5, random_++), -1.0F, 1.0F);
    };
    ms::ops::kernels::DenseWeightGradientArgs sizes{};
    sizes.batch = batch;
    sizes.inputs = inputs;
    sizes.outputs = outputs;
    sizes.dtype = ms::DType::bfloat16;
    auto const workspace_bytes = ms::ops::kernels::dense_weight_gradient_workspace_bytes(
        ms::CudaStream{nullptr, nullptr}, sizes);
    layers_.push_back(
        {random({batch, inputs}),
         random({inputs, outputs}),
         random({batch, outputs}),
         Half(device, {batch, outputs}),
         Half(device, {batch, inputs}),
         ms::Tensor<float, R>(device, {inputs, outputs}),
         ms::Tensor<std::uint8_t, R>(
             device, {std::max<std::int64_t>(static_cast<std::int64_t>(workspace_bytes), 1)}),
         batch,
         inputs,
         outputs});
  }

  static void issue_forward(Layer const& layer, std::optional<int> multiprocessors) {
    ms::ops::kernels::DenseArgs const args{.input = layer.input.data(),
                                           .weight = layer.weight.data(),
                                           .bias = nullptr,
                                           .output = layer.output.data(),
                                           .batch = layer.batch,
                                           .inputs = layer.inputs,
                                           .outputs = layer.outputs,
                                           .activation = ms::ops::Activation::none,
                                           .dtype = ms::DType::bfloat16};
    HalfProduct const bare{.left = args.input,
                           .right = args.weight,
                           .product = args.output,
                           .rows = layer.batch,
                           .inner = layer.inputs,
                           .columns = layer.outputs};
    ms::issue("forward",
              ms::reads(layer.input, layer.weight),
              ms::writes(layer.output),
              [=](ms::CudaStream stream) {
                multiprocessors ? enqueue(stream, bare, *multiprocessors)
                                : ms::ops::kernels::dense(stream, args);
              });
  }
  static void issue_input_gradient(Layer const& layer, std::optional<int> multiprocessors) {
    ms::ops::kernels::DenseInputGradientArgs const args{
        .output_gradient = layer.output_gradient.data(),
        .weight = layer.weight.data(),
        .input_gradient = layer.input_gradient.data(),
        .batch = layer.batch,
        .inputs = layer.inputs,
        .outputs = layer.outputs,
        .dtype = ms::DType::bfloat16};
    HalfProduct const bare{.left = args.output_gradient,
                           .right = args.weight,
                           .product = args.input_gradient,
                           .rows = layer.batch,
                           .inner = layer.outputs,
                           .columns = layer.inputs,
                           .transpose_right = true};
    ms::issue("input_gradient",
              ms::reads(layer.output_gradient, layer.weight),
              ms::writes(layer.input_gradient),
              [=](ms::CudaStream stream) {
                multiprocessors ? enqueue(stream, bare, *multiprocessors)
                                : ms::ops::kernels::dense_input_gradient(stream, args);
              });
  }
  static void issue_weight_gradient(Layer const& layer, std::optional<int> multiprocessors) {
    auto const args = layer.weight_gradient_args();
    HalfProduct const bare{.left = args.input,
                           .right = args.output_gradient,
                           .product = args.weight_gradient,
                           .rows = layer.inputs,
                           .inner = layer.batch,
                           .columns = layer.outputs,
                           .transpose_left = true,
                           .is_float32 = true};
    ms::issue("weight_gradient",
              ms::reads(layer.input, layer.output_gradient),
              ms::writes(layer.weight_gradient, layer.workspace),
              [=](ms::CudaStream stream) {
                multiprocessors ? enqueue(stream, bare, *multiprocessors)
                                : ms::ops::kernels::dense_weight_gradient(stream, args);
              });
  }

  std::vector<Layer> layers_;
  std::uint64_t random_ = 0;
};

}  // namespace benchmarks
