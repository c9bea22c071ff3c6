// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/served_model.hpp"
#include "wdl_weights.hpp"

#include <msstream/msstream.hpp>

#include <cstddef>
#include <variant>
#include <vector>

namespace serve_wdl {

/// A frozen dense layer, whose weights and products have type T.
template <ms::Runtime R, ms::RealElement T = float>
class FrozenLayer {
 public:
  FrozenLayer(ms::Device<R> const& device, WdlWeights::Layer const& layer)
      : weight_(ms::load::frozen<T>(device, layer.weight, {layer.inputs, layer.outputs})),
        bias_(ms::load::frozen<T>(device, layer.bias, {layer.outputs})) {}

  [[nodiscard]] ms::Tensor<T, R> operator()(
      ms::Tensor<T, R> const& input,
      ms::ops::Activation activation = ms::ops::Activation::none) const {
    return ms::ops::dense(input, weight_, bias_, activation);
  }
  [[nodiscard]] std::size_t bytes() const { return weight_.bytes() + bias_.bytes(); }

 private:
  ms::Tensor<T, R> weight_;  ///< [inputs, outputs]
  ms::Tensor<T, R> bias_;    ///< [outputs]
};

/// A frozen multilayer perceptron: dense layers with ReLU between them, in a precision that is
/// chosen when it is made. Inputs and outputs are float32.
template <ms::Runtime R>
class Perceptron {
 public:
  Perceptron(ms::Device<R> const& device,
             std::vector<WdlWeights::Layer> const& layers,
             ms::Precision precision)
      : layers_(ms::with_precision(precision, [&](auto type) -> Layers {
          Stack<typename decltype(type)::type> made;
          for (auto const& layer : layers) {
            made.emplace_back(device, layer);
          }
          return made;
        })) {}

  [[nodiscard]] ms::Tensor<float, R> operator()(ms::Tensor<float, R> const& input) const {
    return std::visit([&](auto const& layers) { return run(layers, input); }, layers_);
  }
  [[nodiscard]] std::size_t bytes() const {
    return std::visit(
        [](auto const& layers) {
          std::size_t bytes = 0;
          for (auto const& layer : layers) {
            bytes += layer.bytes();
          }
          return bytes;
        },
        layers_);
  }

 private:
  template <class T>
  using Stack = std::vector<FrozenLayer<R, T>>;
  using Layers = std::variant<Stack<float>, Stack<ms::bfloat16>, Stack<ms::float16>>;

  template <class T>
  static ms::Tensor<float, R> run(std::vector<FrozenLayer<R, T>> const& layers,
                                  ms::Tensor<float, R> const& input) {
    auto values = ms::ops::cast<T>(input);
    for (auto const& layer : layers) {
      bool const is_last = &layer == &layers.back();
      values = layer(values, is_last ? ms::ops::Activation::none : ms::ops::Activation::relu);
    }
    return ms::ops::cast<float>(values);
  }

  Layers layers_;
};

}  // namespace serve_wdl
