// SPDX-License-Identifier: Apache-2.0
#include "elementwise/elementwise.hpp"

#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {

Floats add(std::vector<Floats> const& terms, std::source_location issued_at) {
  require(!terms.empty(), "add: no terms");
  std::vector<float const*> inputs;
  for (auto const& term : terms) {
    require(term.shape() == terms.front().shape(),
            "add: {} and {}",
            terms.front().shape(),
            term.shape());
    inputs.push_back(term.data());
  }
  Floats total(terms.front().device(), terms.front().shape());
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

Floats scale(Floats const& input, float factor, std::source_location issued_at) {
  Floats const output(input.device(), input.shape());
  scale_into(input, factor, output, issued_at);
  return output;
}

void scale_into(Floats const& input,
                float factor,
                Floats const& output,
                std::source_location issued_at) {
  issue(
      "scale",
      reads(input),
      writes(output),
      [source = input.data(), factor, target = output.data(), count = input.count()](auto stream) {
        kernels::scale(stream, source, factor, target, count);
      },
      {},
      issued_at);
}

Floats sigmoid(Floats const& input, std::source_location issued_at) {
  Floats output(input.device(), input.shape());
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

Floats sigmoid_gradient(Floats const& output,
                        Floats const& output_gradient,
                        std::source_location issued_at) {
  require(output.shape() == output_gradient.shape(),
          "sigmoid_gradient: {} and {}",
          output.shape(),
          output_gradient.shape());
  Floats gradient(output.device(), output.shape());
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

Floats scaled_sum(Floats const& input, float factor, std::source_location issued_at) {
  auto const& device = input.device();
  Floats total(device, Shape{});
  auto const workspace_bytes = ask_kernels(
      *device, [&](auto stream) { return kernels::reduce_workspace_bytes(stream, input.count()); });
  Workspace const workspace(device, workspace_bytes);
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

Floats sum(Floats const& input, std::source_location issued_at) {
  return scaled_sum(input, 1.0F, issued_at);
}

Floats mean(Floats const& input, std::source_location issued_at) {
  require(input.count() > 0, "mean of a tensor of shape {}", input.shape());
  return scaled_sum(input, 1.0F / static_cast<float>(input.count()), issued_at);
}

Floats broadcast(Floats const& value,
                 float factor,
                 Shape const& shape,
                 std::source_location issued_at) {
  require(
      value.count() == 1, "broadcast of a tensor of shape {}; expected a scalar", value.shape());
  Floats output(value.device(), shape);
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

}  // namespace msstream::ops::detail
