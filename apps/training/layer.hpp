// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace msstream::training {

/// The weights and biases of a dense layer, or of several layers of one size.
template <Runtime R>
struct Layer {
  Tensor<float, R> weight;  ///< [inputs, outputs], or [layers, inputs, outputs]
  Tensor<float, R> bias;    ///< [outputs], or [layers, outputs]

  /// Makes the parameters `<name>/weight` and `<name>/bias` of one layer.
  Layer(Parameters<R>& parameters,
        std::string const& name,
        std::int64_t inputs,
        std::int64_t outputs)
      : weight(parameters.dense(name + "/weight", {inputs, outputs})),
        bias(parameters.dense(name + "/bias", {outputs}, init::zeros())) {}

  /// Makes them of several layers in one tensor each. Layer i has the first values of a layer of
  /// its own with the name `names[i]`.
  Layer(Device<R> const& device,
        Parameters<R>& parameters,
        std::string const& name,
        std::vector<std::string> const& names,
        std::int64_t inputs,
        std::int64_t outputs)
      : Layer(parameters, name, static_cast<std::int64_t>(names.size()), inputs, outputs) {
    Parameters<R> alone(device, {.seed = parameters.seed()});
    for (std::size_t i = 0; i < names.size(); ++i) {
      auto const layer = static_cast<std::int64_t>(i);
      copy(weight.rows(layer, layer + 1).reshaped({inputs, outputs}),
           alone.dense(names[i] + "/weight", {inputs, outputs}));
    }
  }

  /// Returns the output, of the input's type.
  template <RealElement T>
  [[nodiscard]] Tensor<T, R> operator()(GradientTape<R>& tape,
                                        Tensor<T, R> const& input,
                                        ops::Activation activation = ops::Activation::none) const {
    return ops::dense(tape, input, weight, bias, activation);
  }

 private:
  Layer(Parameters<R>& parameters,
        std::string const& name,
        std::int64_t layers,
        std::int64_t inputs,
        std::int64_t outputs)
      : weight(parameters.dense(name + "/weight", {layers, inputs, outputs}, init::zeros())),
        bias(parameters.dense(name + "/bias", {layers, outputs}, init::zeros())) {}
};

}  // namespace msstream::training
