// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <source_location>
#include <vector>

namespace msstream::ops {

/// The parameters of a low-rank cross layer, in float32 whatever the type of its input.
template <Runtime R = DefaultRuntime>
struct CrossWeights {
  Tensor<float, R> down;  ///< [width, rank]
  Tensor<float, R> up;    ///< [rank, width]
  Tensor<float, R> bias;  ///< [width]

  /// Converts to weights without a runtime type. For use by the library only.
  template <std::same_as<CrossWeights<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {down, up, bias};
  }
};

namespace detail {

/// The weights of a cross layer in the type of its input, and what its gradient needs besides them.
struct CrossLayer {
  AnyTensor down;
  AnyTensor up;
  AnyTensor bias;
  AnyTensor hidden;     ///< [batch, rank]: input · down
  AnyTensor projected;  ///< [batch, width]: hidden · up + bias
  AnyTensor output;     ///< [batch, width]
};
struct CrossWeightGradients {
  Floats down;
  Floats up;
  Floats bias;
};
struct CrossLayerGradients {
  AnyTensor first;
  AnyTensor input;
  CrossWeightGradients weights;
};
struct CrossNetworkGradients {
  AnyTensor input;
  std::vector<CrossWeightGradients> layers;
};

// The implementations of cross_layer(), cross_network() and their gradients, compiled once for all
// types and runtimes.

[[nodiscard]] CrossLayer cross_layer(AnyTensor const& first,
                                     AnyTensor const& input,
                                     CrossWeights<AnyRuntime> const& weights,
                                     std::source_location issued_at);
[[nodiscard]] CrossLayerGradients cross_layer_gradient(AnyTensor const& first,
                                                       AnyTensor const& input,
                                                       CrossLayer const& layer,
                                                       AnyTensor const& output_gradient,
                                                       std::source_location issued_at);
/// Returns the layers of a network, each with the output of the one before as its input.
[[nodiscard]] std::vector<CrossLayer> cross_network(
    AnyTensor const& input,
    std::vector<CrossWeights<AnyRuntime>> const& weights,
    std::source_location issued_at);
/// Returns the output of the last layer alone, so that nothing else of a layer lives on.
[[nodiscard]] AnyTensor cross_network_output(AnyTensor const& input,
                                             std::vector<CrossWeights<AnyRuntime>> const& weights,
                                             std::source_location issued_at);
[[nodiscard]] CrossNetworkGradients cross_network_gradient(AnyTensor const& input,
                                                           std::vector<CrossLayer> const& layers,
                                                           AnyTensor const& output_gradient,
                                                           std::source_location issued_at);

}  // namespace detail

/// Returns first ⊙ (input · down · up + bias) + input, element by element: a low-rank cross layer
/// of DCN-v2 (Wang et al., DCN V2, 2021, section 3.2). `first` is the input of the first cross
/// layer and `input` that of this layer, both [batch, width]; they may be one tensor. → [batch,
/// width].
///
/// T is float32, float16 or bfloat16. The weights are converted to T; sums and elementwise parts
/// are float32, rounded after each product and at the end. Two products; the second one computes
/// the elementwise part too, if T is a half, the GPU has compute capability 9.0, the output has at
/// least 2 million elements, the rank is at most 512, and width and rank are multiples of 8;
/// otherwise there is a launch for it. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument if the shapes do not fit.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> cross_layer(
    Tensor<T, R> const& first,
    Tensor<T, R> const& input,
    CrossWeights<R> const& weights,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::cross_layer(first.any(), input.any(), weights, issued_at).output};
}

/// Returns the output of cross layers one after the other, each with the output of the layer before
/// it as its input, and all with the input of the network as `first`. With a tape, the backward of
/// the network moves fewer bytes than those of its layers, and keeps the gradients of all their
/// outputs; the gradient of `input` from the layers is rounded to T once for every three layers.
/// Throws std::invalid_argument if there is no layer, and what cross_layer() throws.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> cross_network(
    Tensor<T, R> const& input,
    std::vector<CrossWeights<R>> const& layers,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::cross_network_output(input.any(), {layers.begin(), layers.end()}, issued_at)};
}

}  // namespace msstream::ops
