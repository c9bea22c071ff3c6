// SPDX-License-Identifier: Apache-2.0
#include "mixed/cross.hpp"

#include "dense/dense.hpp"
#include "mixed/summed_gradients.hpp"
#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/cross.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {
namespace {

/// Returns input · weight + bias, [batch, columns of the weight].
[[nodiscard]] AnyTensor product(AnyTensor const& input,
                                AnyTensor const& weight,
                                AnyTensor const* bias,
                                std::source_location issued_at) {
  AnyTensor const output(input.device(), input.dtype(), Shape{input.shape()[0], weight.shape()[1]});
  kernels::DenseArgs const args{.input = input.data(),
                                .weight = weight.data(),
                                .bias = bias != nullptr ? bias->data() : nullptr,
                                .output = output.data(),
                                .batch = input.shape()[0],
                                .inputs = weight.shape()[0],
                                .outputs = weight.shape()[1],
                                .activation = Activation::none,
                                .dtype = input.dtype()};
  auto read = reads(input, weight);
  if (bias != nullptr) {
    read.add(*bias);
  }
  issue(
      "cross_product",
      read,
      writes(output),
      [args](auto stream) { kernels::dense(stream, args); },
      {},
      issued_at);
  return output;
}

/// Returns gradient · weightᵀ, plus `added` unless it is null.
[[nodiscard]] AnyTensor product_gradient(AnyTensor const& gradient,
                                         AnyTensor const& weight,
                                         AnyTensor const* added,
                                         std::source_location issued_at) {
  AnyTensor const output(
      gradient.device(), gradient.dtype(), Shape{gradient.shape()[0], weight.shape()[0]});
  kernels::DenseInputGradientArgs const args{.output_gradient = gradient.data(),
                                             .weight = weight.data(),
                                             .input_gradient = output.data(),
                                             .batch = gradient.shape()[0],
                                             .inputs = weight.shape()[0],
                                             .outputs = weight.shape()[1],
                                             .dtype = gradient.dtype(),
                                             .added = added != nullptr ? added->data() : nullptr};
  auto read = reads(gradient, weight);
  if (added != nullptr) {
    read.add(*added);
  }
  issue(
      "cross_product_gradient",
      read,
      writes(output),
      [args](auto stream) { kernels::dense_input_gradient(stream, args); },
      {},
      issued_at);
  return output;
}

/// Returns inputᵀ · gradient, float32.
[[nodiscard]] Floats weight_gradient(AnyTensor const& input,
                                     AnyTensor const& gradient,
                                     std::source_location issued_at) {
  auto const& device = input.device();
  Floats weight_gradient(device, {input.shape()[1], gradient.shape()[1]});
  kernels::DenseWeightGradientArgs args{.input = input.data(),
                                        .output_gradient = gradient.data(),
                                        .weight_gradient = weight_gradient.data(),
                                        .bias_gradient = nullptr,
                                        .batch = input.shape()[0],
                                        .inputs = input.shape()[1],
                                        .outputs = gradient.shape()[1],
                                        .dtype = input.dtype()};
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::dense_weight_gradient_workspace_bytes(stream, args);
                            }));
  args.workspace = workspace.data();
  issue(
      "cross_weight_gradient",
      reads(input, gradient),
      workspace.with(writes(weight_gradient)),
      [args](auto stream) { kernels::dense_weight_gradient(stream, args); },
      {},
      issued_at);
  return weight_gradient;
}

void require_layer(AnyTensor const& first,
                   AnyTensor const& input,
                   CrossWeights<AnyRuntime> const& weights) {
  auto const& shape = input.shape();
  bool const is_matrix = shape.rank() == 2 && weights.down.shape().rank() == 2;
  require(is_matrix && first.shape() == shape && first.dtype() == input.dtype() &&
              weights.down.shape()[0] == shape[1] &&
              weights.up.shape() == (Shape{weights.down.shape()[1], shape[1]}) &&
              weights.bias.shape() == Shape{shape[1]},
          "cross_layer: first {} of {}, input {} of {}, down {}, up {}, bias {}; expected [batch, "
          "width] twice and of one type, [width, rank], [rank, width], [width]",
          first.shape(),
          name_of(first.dtype()),
          shape,
          name_of(input.dtype()),
          weights.down.shape(),
          weights.up.shape(),
          weights.bias.shape());
}

/// The place of a layer among others with the same first input.
struct LayerPlace {
  std::optional<AnyTensor> before = {};  ///< the gradient of `first` from later layers
  bool reads_first = false;  ///< whether the layer's input is `first`, and gets all its gradients
};

/// The factors of the gradients of a layer's weights, and that of its bias.
struct WeightFactors {
  AnyTensor projected;
  AnyTensor hidden;
  Floats bias;
};
struct LayerGradients {
  AnyTensor first;  ///< with those of later layers
  AnyTensor input;
  WeightFactors factors;
};

/// Returns the gradients of a layer, without those of the factors `down` and `up`.
[[nodiscard]] LayerGradients gradients_of(AnyTensor const& first,
                                          AnyTensor const& input,
                                          CrossLayer const& layer,
                                          AnyTensor const& output_gradient,
                                          LayerPlace const& place,
                                          std::source_location issued_at) {
  auto const& device = input.device();
  AnyTensor first_gradient(device, input.dtype(), input.shape());
  AnyTensor const projected_gradient(device, input.dtype(), input.shape());
  Floats bias_gradient(device, layer.bias.shape());
  kernels::CrossSumsArgs const args{.first = first.data(),
                                    .projected = layer.projected.data(),
                                    .output_gradient = output_gradient.data(),
                                    .added = place.before ? place.before->data() : nullptr,
                                    .adds_gradient = place.reads_first,
                                    .first_gradient = first_gradient.data(),
                                    .projected_gradient = projected_gradient.data(),
                                    .sums = bias_gradient.data(),
                                    .rows = input.shape()[0],
                                    .columns = input.shape()[1],
                                    .dtype = input.dtype()};
  auto read = reads(first, layer.projected, output_gradient);
  if (place.before) {
    read.add(*place.before);
  }
  auto written = writes(first_gradient, projected_gradient);
  written.add(bias_gradient);
  issue(
      "cross_gradient",
      read,
      written,
      [args](auto stream) { kernels::cross_gradient_sums(stream, args); },
      {},
      issued_at);
  auto const& added = place.reads_first ? first_gradient : output_gradient;
  auto hidden_gradient = product_gradient(projected_gradient, layer.up, nullptr, issued_at);
  auto input_gradient = product_gradient(hidden_gradient, layer.down, &added, issued_at);
  return {std::move(first_gradient),
          std::move(input_gradient),
          {projected_gradient, std::move(hidden_gradient), std::move(bias_gradient)}};
}

/// Returns the gradients of a layer's weights.
[[nodiscard]] CrossWeightGradients weight_gradients_of(AnyTensor const& input,
                                                       CrossLayer const& layer,
                                                       WeightFactors const& factors,
                                                       std::source_location issued_at) {
  auto up = weight_gradient(layer.hidden, factors.projected, issued_at);
  auto down = weight_gradient(input, factors.hidden, issued_at);
  return {std::move(down), std::move(up), factors.bias};
}

}  // namespace

CrossLayer cross_layer(AnyTensor const& first,
                       AnyTensor const& input,
                       CrossWeights<AnyRuntime> const& weights,
                       std::source_location issued_at) {
  require_layer(first, input, weights);
  auto const own = cast(std::vector{weights.down.any(), weights.up.any(), weights.bias.any()},
                        input.dtype(),
                        issued_at);
  auto hidden = product(input, own[0], nullptr, issued_at);
  auto projected = product(hidden, own[1], &own[2], issued_at);
  AnyTensor output(input.device(), input.dtype(), input.shape());
  kernels::CrossArgs const args{.first = first.data(),
                                .projected = projected.data(),
                                .input = input.data(),
                                .output = output.data(),
                                .count = input.count(),
                                .dtype = input.dtype()};
  issue(
      "cross",
      reads(first, projected, input),
      writes(output),
      [args](auto stream) { kernels::cross(stream, args); },
      {},
      issued_at);
  return {own[0], own[1], own[2], std::move(hidden), std::move(projected), std::move(output)};
}

CrossLayerGradients cross_layer_gradient(AnyTensor const& first,
                                         AnyTensor const& input,
                                         CrossLayer const& layer,
                                         AnyTensor const& output_gradient,
                                         std::source_location issued_at) {
  auto const gradients = gradients_of(first, input, layer, output_gradient, {}, issued_at);
  return {gradients.first,
          gradients.input,
          weight_gradients_of(input, layer, gradients.factors, issued_at)};
}

std::vector<CrossLayer> cross_network(AnyTensor const& input,
                                      std::vector<CrossWeights<AnyRuntime>> const& weights,
                                      std::source_location issued_at) {
  require(!weights.empty(), "cross_network: no layers");
  std::vector<CrossLayer> layers;
  for (auto const& each : weights) {
    layers.push_back(
        cross_layer(input, layers.empty() ? input : layers.back().output, each, issued_at));
  }
  return layers;
}

AnyTensor cross_network_output(AnyTensor const& input,
                               std::vector<CrossWeights<AnyRuntime>> const& weights,
                               std::source_location issued_at) {
  require(!weights.empty(), "cross_network: no layers");
  auto crossed = input;
  for (auto const& each : weights) {
    crossed = cross_layer(input, crossed, each, issued_at).output;
  }
  return crossed;
}

CrossNetworkGradients cross_network_gradient(AnyTensor const& input,
                                             std::vector<CrossLayer> const& layers,
                                             AnyTensor const& output_gradient,
                                             std::source_location issued_at) {
  // The gradient of the network's input is needed next, those of the weights by nothing in this
  // backward: they come last, so that work on other stream groups runs beside them.
  auto const input_of = [&](std::size_t i) { return i == 0 ? input : layers[i - 1].output; };
  CrossNetworkGradients all{output_gradient, {}};
  std::optional<AnyTensor> first_gradient;
  std::vector<WeightFactors> factors;  // of the last layer to the first
  for (auto i = layers.size(); i-- > 0;) {
    auto gradients = gradients_of(input,
                                  input_of(i),
                                  layers[i],
                                  all.input,
                                  {.before = first_gradient, .reads_first = i == 0},
                                  issued_at);
    first_gradient = std::move(gradients.first);
    all.input = std::move(gradients.input);
    factors.push_back(std::move(gradients.factors));
  }
  first_gradient.reset();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    all.layers.push_back(
        weight_gradients_of(input_of(i), layers[i], factors[layers.size() - 1 - i], issued_at));
  }
  return all;
}

}  // namespace msstream::ops::detail
