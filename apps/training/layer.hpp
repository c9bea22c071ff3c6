// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/initialiser.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace msstream::training {

/// The weights and biases of a dense layer, or of several layers of one size.
template <Runtime R>
struct Layer {
  Tensor<float, R> weight;  ///< [inputs, outputs], or [layers, inputs, outputs]
  Tensor<float, R> bias;    ///< [outputs], or [layers, outputs]

  /// Makes a layer for each name. If `stacked`, all layers are in one tensor; otherwise there must
  /// be one name.
  Layer(Device<R> const& device,
        datasets::Initialiser const& initialiser,
        std::vector<std::string> const& names,
        std::int64_t inputs,
        std::int64_t outputs,
        bool stacked)
      : weight(to_device<float, R>(
            device,
            values(initialiser, names, inputs, outputs),
            stacked ? Shape{static_cast<std::int64_t>(names.size()), inputs, outputs}
                    : Shape{inputs, outputs})),
        bias(zeros<float>(
            device,
            stacked ? Shape{static_cast<std::int64_t>(names.size()), outputs} : Shape{outputs})) {}

  [[nodiscard]] Tensor<float, R> operator()(
      GradientTape<R>& tape,
      Tensor<float, R> const& input,
      ops::Activation activation = ops::Activation::none) const {
    return ops::dense(tape, input, weight, bias, activation);
  }

 private:
  static std::vector<float> values(datasets::Initialiser const& initialiser,
                                   std::vector<std::string> const& names,
                                   std::int64_t inputs,
                                   std::int64_t outputs) {
    std::vector<float> all;
    for (auto const& name : names) {
      initialiser.append_weight(all, name, inputs, outputs);
    }
    return all;
  }
};

}  // namespace msstream::training
