// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/served_model.hpp"
#include "wdl_weights.hpp"

#include <msstream/msstream.hpp>

#include <cstddef>
#include <vector>

namespace serve_wdl {

template <ms::Runtime R>
class FrozenLayer {
 public:
  FrozenLayer(ms::Device<R> const& device, WdlWeights::Layer const& layer)
      : weight_(ms::load::frozen(device, layer.weight, {layer.inputs, layer.outputs})),
        bias_(ms::load::frozen(device, layer.bias, {layer.outputs})) {}

  [[nodiscard]] ms::Tensor<float, R> operator()(
      ms::Tensor<float, R> const& input,
      ms::ops::Activation activation = ms::ops::Activation::none) const {
    return ms::ops::dense(input, weight_, bias_, activation);
  }
  [[nodiscard]] std::size_t bytes() const { return weight_.bytes() + bias_.bytes(); }

 private:
  ms::Tensor<float, R> weight_;  ///< [inputs, outputs]
  ms::Tensor<float, R> bias_;    ///< [outputs]
};

/// A frozen multilayer perceptron: dense layers with ReLU between them.
template <ms::Runtime R>
class Perceptron {
 public:
  Perceptron(ms::Device<R> const& device, std::vector<WdlWeights::Layer> const& layers) {
    for (auto const& layer : layers) {
      layers_.emplace_back(device, layer);
    }
  }

  [[nodiscard]] ms::Tensor<float, R> operator()(ms::Tensor<float, R> input) const {
    for (auto const& layer : layers_) {
      bool const is_last = &layer == &layers_.back();
      input = layer(input, is_last ? ms::ops::Activation::none : ms::ops::Activation::relu);
    }
    return input;
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t bytes = 0;
    for (auto const& layer : layers_) {
      bytes += layer.bytes();
    }
    return bytes;
  }

 private:
  std::vector<FrozenLayer<R>> layers_;
};

}  // namespace serve_wdl
