// SPDX-License-Identifier: Apache-2.0
#include "dense/dense.hpp"
#include "mixed/cross_products.hpp"
#include "mixed/summed_gradients.hpp"
#include "ops/common/half_copies.hpp"
#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/cross.hpp>
#include <msstream/tensor/issue.hpp>

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {
namespace {

/// Returns input · weight, [batch, columns of the weight].
[[nodiscard]] AnyTensor product(AnyTensor const& input,
                                AnyTensor const& weight,
                                std::source_location issued_at) {
  AnyTensor const output(input.device(), input.dtype(), Shape{input.shape()[0], weight.shape()[1]});
  kernels::DenseArgs const args{.input = input.data(),
                                .weight = weight.data(),
                                .bias = nullptr,
                                .output = output.data(),
                                .batch = input.shape()[0],
                                .inputs = weight.shape()[0],
                                .outputs = weight.shape()[1],
                                .activation = Activation::none,
                                .dtype = input.dtype()};
  issue(
      "cross_product",
      reads(input, weight),
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

/// Returns the sizes of the product behind which a layer of this input has elementwise work.
[[nodiscard]] kernels::CrossShape shape_of(AnyTensor const& input, AnyTensor const& hidden) {
  return {.rows = input.shape()[0],
          .columns = input.shape()[1],
          .inner = hidden.shape()[1],
          .dtype = input.dtype()};
}

/// The factors of the gradients of a layer's weights.
struct WeightFactors {
  AnyTensor projected;  ///< the gradient of what the layer has projected
  AnyTensor hidden;     ///< that of its hidden columns
  Floats bias;          ///< that of its bias
};

/// Returns the gradient of a layer's hidden columns.
[[nodiscard]] AnyTensor hidden_gradient(AnyTensor const& projected_gradient,
                                        CrossLayer const& layer,
                                        std::source_location issued_at) {
  return product_gradient(projected_gradient, layer.up, nullptr, issued_at);
}

/// Returns the factors of the gradients of a layer's weights. With `first_gradient`, that of the
/// first input from this layer is stored there.
[[nodiscard]] WeightFactors factors_of(AnyTensor const& first,
                                       CrossLayer const& layer,
                                       AnyTensor const& output_gradient,
                                       AnyTensor const* first_gradient,
                                       std::source_location issued_at) {
  auto const& device = first.device();
  AnyTensor const projected_gradient(device, first.dtype(), first.shape());
  Floats bias_gradient(device, layer.bias.shape());
  kernels::CrossSumsArgs const args{
      .first = first.data(),
      .projected = first_gradient != nullptr ? layer.projected.data() : nullptr,
      .output_gradient = output_gradient.data(),
      .first_gradient = first_gradient != nullptr ? first_gradient->data() : nullptr,
      .projected_gradient = projected_gradient.data(),
      .sums = bias_gradient.data(),
      .rows = first.shape()[0],
      .columns = first.shape()[1],
      .dtype = first.dtype()};
  auto read = reads(first, output_gradient);
  auto written = writes(projected_gradient);
  written.add(bias_gradient);
  if (first_gradient != nullptr) {
    read.add(layer.projected);
    written.add(*first_gradient);
  }
  issue(
      "cross_gradient",
      read,
      written,
      [args](auto stream) { kernels::cross_gradient_sums(stream, args); },
      {},
      issued_at);
  return {projected_gradient,
          hidden_gradient(projected_gradient, layer, issued_at),
          std::move(bias_gradient)};
}

/// The gradient of a layer's input, and what follows from it for the layer before.
struct InputGradient {
  AnyTensor input;
  WeightFactors before;
};
[[nodiscard]] InputGradient input_gradient(AnyTensor const& first,
                                           CrossLayer const& layer,
                                           WeightFactors const& factors,
                                           AnyTensor const& output_gradient,
                                           CrossLayer const& before,
                                           std::source_location issued_at) {
  auto const& device = first.device();
  AnyTensor gradient(device, first.dtype(), first.shape());
  AnyTensor const projected_gradient(device, first.dtype(), first.shape());
  Floats bias_gradient(device, before.bias.shape());
  kernels::CrossGradientArgs args{.gradient = factors.hidden.data(),
                                  .down = layer.down.data(),
                                  .added = output_gradient.data(),
                                  .first = first.data(),
                                  .sum = gradient.data(),
                                  .projected = projected_gradient.data(),
                                  .column_sums = bias_gradient.data(),
                                  .workspace = nullptr,
                                  .shape = shape_of(first, layer.hidden)};
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::cross_gradient_workspace_bytes(stream, args);
                            }));
  args.workspace = workspace.data();
  auto written = writes(gradient, projected_gradient);
  written.add(bias_gradient);
  issue(
      "cross_input_gradient",
      reads(factors.hidden, layer.down, output_gradient, first),
      workspace.with(written),
      [args](auto stream) { kernels::cross_gradient(stream, args); },
      {},
      issued_at);
  return {std::move(gradient),
          {projected_gradient,
           hidden_gradient(projected_gradient, before, issued_at),
           std::move(bias_gradient)}};
}

/// Returns the gradient of the input of a network, which each of its layers reads, from the
/// gradients of the outputs of its layers.
[[nodiscard]] AnyTensor network_input_gradient(std::vector<CrossLayer> const& layers,
                                               AnyTensor const& hidden,
                                               std::vector<AnyTensor> const& output_gradients,
                                               std::source_location issued_at) {
  auto const& nearest = output_gradients.front();
  AnyTensor gradient(nearest.device(), nearest.dtype(), nearest.shape());
  constexpr std::size_t kAtOnce = kernels::kMostCrossLayers;
  kernels::CrossLastGradientArgs args{.gradient = hidden.data(),
                                      .down = layers.front().down.data(),
                                      .layers = {},
                                      .input_gradient = gradient.data(),
                                      .shape = shape_of(nearest, layers.front().hidden)};
  auto read = reads(hidden, layers.front().down);
  auto const take = [&](std::size_t first, auto& to, auto& used) {
    for (std::size_t i = first; i < std::min(first + kAtOnce, layers.size()); ++i) {
      to[i - first] = {output_gradients[i].data(), layers[i].projected.data()};
      used.add(output_gradients[i]);
      used.add(layers[i].projected);
    }
  };
  take(0, args.layers, read);
  issue(
      "cross_first_gradient",
      read,
      writes(gradient),
      [args](auto stream) { kernels::cross_last_gradient(stream, args); },
      {},
      issued_at);
  for (auto i = kAtOnce; i < layers.size(); i += kAtOnce) {
    kernels::CrossSumArgs sum{.sum = gradient.data(),
                              .added = nullptr,
                              .layers = {},
                              .count = gradient.count(),
                              .dtype = gradient.dtype()};
    auto others = reads(layers[i].projected);
    take(i, sum.layers, others);
    issue(
        "cross_first_gradient",
        others,
        writes(gradient),
        [sum](auto stream) { kernels::cross_sum(stream, sum); },
        {},
        issued_at);
  }
  return gradient;
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

/// Computes a layer. Unless it `keeps` what its gradient needs, its `projected` is its output.
[[nodiscard]] CrossLayer compute_layer(AnyTensor const& first,
                                       AnyTensor const& input,
                                       CrossWeights<AnyRuntime> const& weights,
                                       bool keeps,
                                       std::source_location issued_at) {
  require_layer(first, input, weights);
  auto const own = halves_of(std::vector{weights.down.any(), weights.up.any(), weights.bias.any()},
                             input.dtype(),
                             issued_at);
  auto hidden = product(input, own[0], issued_at);
  AnyTensor output(input.device(), input.dtype(), input.shape());
  auto projected = keeps ? AnyTensor(input.device(), input.dtype(), input.shape()) : output;
  kernels::CrossForwardArgs const args{.hidden = hidden.data(),
                                       .up = own[1].data(),
                                       .bias = own[2].data(),
                                       .first = first.data(),
                                       .input = input.data(),
                                       .projected = keeps ? projected.data() : nullptr,
                                       .output = output.data(),
                                       .shape = shape_of(input, hidden)};
  auto written = writes(output);
  if (keeps) {
    written.add(projected);
  }
  issue(
      "cross",
      reads(hidden, own[1], own[2], first, input),
      written,
      [args](auto stream) { kernels::cross_forward(stream, args); },
      {},
      issued_at);
  return {own[0], own[1], own[2], std::move(hidden), std::move(projected), std::move(output)};
}

}  // namespace

CrossLayer cross_layer(AnyTensor const& first,
                       AnyTensor const& input,
                       CrossWeights<AnyRuntime> const& weights,
                       std::source_location issued_at) {
  return compute_layer(first, input, weights, true, issued_at);
}

CrossLayerGradients cross_layer_gradient(AnyTensor const& first,
                                         AnyTensor const& input,
                                         CrossLayer const& layer,
                                         AnyTensor const& output_gradient,
                                         std::source_location issued_at) {
  AnyTensor first_gradient(input.device(), input.dtype(), input.shape());
  auto const factors = factors_of(first, layer, output_gradient, &first_gradient, issued_at);
  auto input_gradient = product_gradient(factors.hidden, layer.down, &output_gradient, issued_at);
  return {std::move(first_gradient),
          std::move(input_gradient),
          weight_gradients_of(input, layer, factors, issued_at)};
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
    crossed = compute_layer(input, crossed, each, false, issued_at).output;
  }
  return crossed;
}

CrossNetworkGradients cross_network_gradient(AnyTensor const& input,
                                             std::vector<CrossLayer> const& layers,
                                             AnyTensor const& output_gradient,
                                             std::source_location issued_at) {
  // The gradient of the network's input is needed next, those of the weights by nothing in this
  // backward: they come last, so that work on other stream groups runs beside them.
  auto const last = layers.size() - 1;
  std::vector<AnyTensor> output_gradients(layers.size(), output_gradient);
  std::vector<WeightFactors> factors;  // of the last layer to the first
  factors.push_back(factors_of(input, layers[last], output_gradient, nullptr, issued_at));
  for (auto i = last; i > 0; --i) {
    auto gradient = input_gradient(
        input, layers[i], factors.back(), output_gradients[i], layers[i - 1], issued_at);
    output_gradients[i - 1] = std::move(gradient.input);
    factors.push_back(std::move(gradient.before));
  }
  CrossNetworkGradients all{
      network_input_gradient(layers, factors.back().hidden, output_gradients, issued_at), {}};
  output_gradients.clear();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    all.layers.push_back(weight_gradients_of(
        i == 0 ? input : layers[i - 1].output, layers[i], factors[last - i], issued_at));
  }
  return all;
}

}  // namespace msstream::ops::detail
