// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/elementwise.hpp>
#include <msstream/ops/workspace.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

namespace msstream::ops {

/// Returns the sum of tensors of one shape, added from first to last: groups of up to 32 terms in
/// float32, and the sums of the groups in float64. Asynchronous; deterministic. Throws
/// std::invalid_argument if there are no terms or if their shapes differ.
template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    std::vector<Tensor<float, R>> const& terms,
    std::source_location issued_at = std::source_location::current()) {
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
  issue(
      "add",
      reads(terms),
      writes(total),
      [inputs = std::move(inputs), output = total.data(), count = total.count()](auto stream) {
        kernels::add(stream, inputs, output, count);
      },
      {},
      issued_at);
  return total;
}

/// Returns factor * input.
template <Runtime R>
[[nodiscard]] Tensor<float, R> scale(
    Tensor<float, R> const& input,
    float factor,
    std::source_location issued_at = std::source_location::current()) {
  Tensor<float, R> output(input.device(), input.shape());
  issue(
      "scale",
      reads(input),
      writes(output),
      [source = input.data(), factor, target = output.data(), count = input.count()](auto stream) {
        kernels::scale(stream, source, factor, target, count);
      },
      {},
      issued_at);
  return output;
}

/// Returns 1 / (1 + exp(-input)), element by element.
template <Runtime R>
[[nodiscard]] Tensor<float, R> sigmoid(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  Tensor<float, R> output(input.device(), input.shape());
  issue(
      "sigmoid",
      reads(input),
      writes(output),
      [source = input.data(), target = output.data(), count = input.count()](auto stream) {
        kernels::sigmoid(stream, source, target, count);
      },
      {},
      issued_at);
  return output;
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> sigmoid_gradient(
    Tensor<float, R> const& output,
    Tensor<float, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  require(output.shape() == output_gradient.shape(),
          "sigmoid_gradient: ",
          output.shape(),
          " and ",
          output_gradient.shape());
  Tensor<float, R> gradient(output.device(), output.shape());
  issue(
      "sigmoid_gradient",
      reads(output, output_gradient),
      writes(gradient),
      [y = output.data(),
       dy = output_gradient.data(),
       dx = gradient.data(),
       count = output.count()](auto stream) {
        kernels::sigmoid_gradient(stream, y, dy, dx, count);
      },
      {},
      issued_at);
  return gradient;
}

/// Returns factor * (sum of the elements), a scalar. Deterministic: float32 partial sums are added
/// in a fixed tree.
template <Runtime R>
[[nodiscard]] Tensor<float, R> scaled_sum(
    Tensor<float, R> const& input,
    float factor,
    std::source_location issued_at = std::source_location::current()) {
  auto const& device = input.device();
  Tensor<float, R> total(device, Shape{});
  auto const workspace_bytes =
      kernels::reduce_workspace_bytes(detail::size_query<R>(*device), input.count());
  detail::Workspace<R> const workspace(device, workspace_bytes);
  issue(
      "sum",
      reads(input),
      workspace.with(writes(total)),
      [source = input.data(),
       count = input.count(),
       factor,
       space = workspace.data(),
       target = total.data()](auto stream) {
        kernels::reduce_sum(stream, source, count, factor, space, target);
      },
      {},
      issued_at);
  return total;
}
template <Runtime R>
[[nodiscard]] Tensor<float, R> sum(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  return scaled_sum(input, 1.0F, issued_at);
}
/// Returns the mean of the elements, a scalar. Throws std::invalid_argument if there are no
/// elements.
template <Runtime R>
[[nodiscard]] Tensor<float, R> mean(
    Tensor<float, R> const& input,
    std::source_location issued_at = std::source_location::current()) {
  require(input.count() > 0, "mean of a tensor of shape ", input.shape());
  return scaled_sum(input, 1.0F / static_cast<float>(input.count()), issued_at);
}
/// Returns a tensor of the given shape whose elements are all factor * value: the gradient of
/// scaled_sum(). `value` is a scalar.
template <Runtime R>
[[nodiscard]] Tensor<float, R> broadcast(
    Tensor<float, R> const& value,
    float factor,
    Shape const& shape,
    std::source_location issued_at = std::source_location::current()) {
  require(
      value.count() == 1, "broadcast of a tensor of shape ", value.shape(), "; expected a scalar");
  Tensor<float, R> output(value.device(), shape);
  issue(
      "broadcast",
      reads(value),
      writes(output),
      [source = value.data(), factor, target = output.data(), count = output.count()](auto stream) {
        kernels::broadcast_scalar(stream, source, factor, target, count);
      },
      {},
      issued_at);
  return output;
}

}  // namespace msstream::ops
