// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/dense.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {

struct DenseStackOptions {
  ops::Activation activation = ops::Activation::relu;  ///< of every layer but the last
  ops::Activation last = ops::Activation::none;        ///< of the last layer
  Initializer weight = init::xavier_uniform();
  Initializer bias = init::zeros();
};

/// Dense layers one after the other: a multi-layer perceptron. Copies share the parameters.
template <Runtime R = DefaultRuntime>
class DenseStack {
 public:
  /// Makes, or finds, the parameters `<name>/<layer>/weight` [inputs, outputs] and
  /// `<name>/<layer>/bias` [outputs] of a layer for each entry of `widths`, the number of its
  /// outputs. The first layer has `inputs` inputs. Stacks of one name in one store are one set of
  /// weights, as tensors of one name are: give each tower a name of its own. Throws what
  /// Parameters::dense() throws, also for a name that has other shapes or initializers.
  DenseStack(Parameters<R>& parameters,
             std::string_view name,
             std::int64_t inputs,
             std::vector<std::int64_t> const& widths,
             DenseStackOptions const& options = {},
             std::source_location issued_at = std::source_location::current())
      : options_(options) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      auto const layer = std::string(name) + "/" + std::to_string(i);
      auto weight =
          parameters.dense(layer + "/weight", {inputs, widths[i]}, options.weight, issued_at);
      auto bias = parameters.dense(layer + "/bias", {widths[i]}, options.bias, issued_at);
      layers_.push_back({std::move(weight), std::move(bias)});
      inputs = widths[i];
    }
  }

  /// Returns the output of the last layer, [batch, outputs], for an input [batch, inputs]. The
  /// result of a stack without layers is the input. `tape` is a GradientTape, or no_tape.
  template <class Tape>
  [[nodiscard]] Tensor<float, R> operator()(
      Tape& tape,
      Tensor<float, R> input,
      std::source_location issued_at = std::source_location::current()) const {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      auto const activation = i + 1 < layers_.size() ? options_.activation : options_.last;
      input = ops::dense(tape, input, layers_[i].weight, layers_[i].bias, activation, issued_at);
    }
    return input;
  }

 private:
  struct Layer {
    Tensor<float, R> weight;  ///< [inputs, outputs]
    Tensor<float, R> bias;    ///< [outputs]
  };

  DenseStackOptions options_;
  std::vector<Layer> layers_;
};

}  // namespace msstream
