// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/cross.hpp>
#include <msstream/ops/precision.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/parameters.hpp>

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

struct CrossNetworkOptions {
  std::int64_t layers = 3;                      ///< with 0, the output is the input
  std::int64_t rank = 512;                      ///< columns of a layer's inner product
  Initializer weight = init::xavier_uniform();  ///< of `down` and `up`, each by its own shape
  Initializer bias = init::zeros();             ///< of the biases of all layers
  /// The precision of the layers for an input of float32, which is converted to it, as the output
  /// is to float32. An input of half precision decides for itself.
  Precision precision = Precision::fp32;
};

/// The low-rank cross network of DCN-v2 (Wang et al., DCN V2, 2021): ops::cross_network() with its
/// parameters. Copies share the parameters.
template <Runtime R = DefaultRuntime>
class CrossNetwork {
 public:
  /// Makes, or finds, the parameters of each layer: `<name>/<layer>/down` [width, rank],
  /// `<name>/<layer>/up` [rank, width] and `<name>/<layer>/bias` [width]. Throws what
  /// Parameters::dense() throws.
  CrossNetwork(Parameters<R>& parameters,
               std::string_view name,
               std::int64_t width,
               CrossNetworkOptions const& options = {},
               std::source_location issued_at = std::source_location::current())
      : precision_(options.precision) {
    for (std::int64_t i = 0; i < options.layers; ++i) {
      auto const layer = std::string(name) + "/" + std::to_string(i);
      layers_.push_back(
          {parameters.dense(layer + "/down", {width, options.rank}, options.weight, issued_at),
           parameters.dense(layer + "/up", {options.rank, width}, options.weight, issued_at),
           parameters.dense(layer + "/bias", {width}, options.bias, issued_at)});
    }
  }

  /// Returns the output of the last layer for an input [batch, width] of float32, float16 or
  /// bfloat16, in its shape and type. `tape` is a GradientTape, or no_tape.
  template <class Tape, RealElement T>
  [[nodiscard]] Tensor<T, R> operator()(
      Tape& tape,
      Tensor<T, R> const& input,
      std::source_location issued_at = std::source_location::current()) const {
    if (layers_.empty()) {
      return input;
    }
    if constexpr (HalfElement<T>) {
      return ops::cross_network(tape, input, layers_, issued_at);
    } else {
      return with_precision(precision_, [&](auto type) {
        using Inside = typename decltype(type)::type;
        auto const inside = ops::cast<Inside>(tape, input, issued_at);
        auto const output = ops::cross_network(tape, inside, layers_, issued_at);
        return ops::cast<float>(tape, output, issued_at);
      });
    }
  }

 private:
  std::vector<ops::CrossWeights<R>> layers_;
  Precision precision_;
};

}  // namespace msstream
