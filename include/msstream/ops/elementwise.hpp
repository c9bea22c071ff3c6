// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/elementwise.hpp>
#include <msstream/ops/workspace.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops {

/// The sum of tensors of one shape, added front to back. Asynchronous, deterministic.
template <Runtime R>
[[nodiscard]] Tensor<float, R> add(std::vector<Tensor<float, R>> const& terms) {
  require(!terms.empty(), "add: no terms");
  std::vector<float const*> inputs;
  for (auto const& term : terms) {
    require(term.shape() == terms.front().shape(),
            "add: ",
            terms.front().shape(),
            " and ",
            term.shape());
    inputs.push_back(term.data());
  }
  Tensor<float, R> total(terms.front().device(), terms.front().shape());
  issue("add",
        reads(terms),
        writes(total),
        [inputs = std::move(inputs), output = total.data(), count = total.count()](auto stream) {
          kernels::add(stream, inputs, output, count);
        });
  return total;
}

/// factor * input.
template <Runtime R>
[[nodiscard]] Tensor<float, R> scale(Tensor<float, R> const& input, float factor) {
  Tensor<float, R> output(input.device(), input.shape());
  issue("scale",
        reads(input),
        writes(output),
        [source = input.data(), factor, target = output.data(), count = input.count()](
            auto stream) { kernels::scale(stream, source, factor, target, count); });
  return output;
}

/// 1 / (1 + exp(-input)).
template <Runtime R>
[[nodiscard]] Tensor<float, R> sigmoid(Tensor<float, R> const& input) {
  Tensor<float, R> output(input.device(), input.shape());
  issue("sigmoid",
        reads(input),
        writes(output),
        [source = input.data(), target = output.data(), count = input.count()](auto stream) {
          kernels::sigmoid(stream, source, target, count);
        });
  return output;
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> sigmoid_gradient(Tensor<float, R> const& output,
                                                Tensor<float, R> const& output_gradient) {
  require(output.shape() == output_gradient.shape(),
          "sigmoid_gradient: ",
          output.shape(),
          " and ",
          output_gradient.shape());
  Tensor<float, R> gradient(output.device(), output.shape());
  issue("sigmoid_gradient",
        reads(output, output_gradient),
        writes(gradient),
        [y = output.data(),
         dy = output_gradient.data(),
         dx = gradient.data(),
         count = output.count()](auto stream) {
          kernels::sigmoid_gradient(stream, y, dy, dx, count);
        });
  return gradient;
}

/// factor * (sum of the elements), a scalar. Deterministic: a fixed tree of float32 partial sums.
template <Runtime R>
[[nodiscard]] Tensor<float, R> scaled_sum(Tensor<float, R> const& input, float factor) {
  auto const& device = input.device();
  Tensor<float, R> total(device, Shape{});
  auto const workspace_bytes =
      kernels::reduce_workspace_bytes(detail::size_query(*device), input.count());
  detail::Workspace<R> const workspace(device, workspace_bytes);
  issue("sum",
        reads(input),
        workspace.with(writes(total)),
        [source = input.data(),
         count = input.count(),
         factor,
         space = workspace.data(),
         target = total.data()](auto stream) {
          kernels::reduce_sum(stream, source, count, factor, space, target);
        });
  return total;
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(Tensor<float, R> const& input) {
  return scaled_sum(input, 1.0F);
}
/// The mean of the elements, a scalar. Throws std::invalid_argument when there are none.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(Tensor<float, R> const& input) {
  require(input.count() > 0, "mean of a tensor of shape ", input.shape());
  return scaled_sum(input, 1.0F / static_cast<float>(input.count()));
}
/// factor * value, repeated: the gradient of scaled_sum.
template <Runtime R>
[[nodiscard]] Tensor<float, R> broadcast(Tensor<float, R> const& value,
                                         float factor,
                                         Shape const& shape) {
  require(
      value.count() == 1, "broadcast of a tensor of shape ", value.shape(), "; expected a scalar");
  Tensor<float, R> output(value.device(), shape);
  issue("broadcast",
        reads(value),
        writes(output),
        [source = value.data(), factor, target = output.data(), count = output.count()](
            auto stream) { kernels::broadcast_scalar(stream, source, factor, target, count); });
  return output;
}

}  // namespace msstream::ops
