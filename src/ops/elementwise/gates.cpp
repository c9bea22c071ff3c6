// SPDX-License-Identifier: Apache-2.0
#include "normalize/gates.hpp"

#include "ops/common/workspace.hpp"
#include "ops/elementwise/normalize.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/activation.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {
namespace {

[[nodiscard]] kernels::GateArgs gate_args(kernels::Gate gate,
                                          Floats const& input,
                                          Floats const& weight,
                                          kernels::ColumnMoments const& moments,
                                          Floats const& output,
                                          RowsAndWidth const& sizes) {
  return {gate,
          input.data(),
          weight.data(),
          weight.count() == 1,
          moments,
          output.data(),
          sizes.rows,
          sizes.width};
}

[[nodiscard]] OperandGradients<AnyRuntime> gate_gradient(char const* operation,
                                                         kernels::Gate gate,
                                                         Floats const& input,
                                                         Floats const& weight,
                                                         std::optional<Floats> const& statistics,
                                                         Floats const& output_gradient,
                                                         WantedOperands wanted,
                                                         std::optional<Floats> const& mask,
                                                         std::source_location issued_at) {
  auto const sizes = require_gate(operation, input, weight);
  require(output_gradient.shape() == input.shape() &&
              (!statistics || statistics->shape() == (Shape{4, sizes.width})),
          "{}: input {}, output gradient {}, statistics {}",
          operation,
          input.shape(),
          output_gradient.shape(),
          statistics ? statistics->shape() : Shape{});
  OperandGradients<AnyRuntime> gradients;
  if (!wanted.left && !wanted.right) {
    return gradients;
  }
  auto const& device = input.device();
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::gate_gradient_workspace_bytes(
                                  stream, sizes.rows, sizes.width);
                            }));
  auto read = reads(input, weight, output_gradient);
  if (statistics) {
    read.add(*statistics);
  }
  kernels::GateGradientArgs args{gate,
                                 input.data(),
                                 weight.data(),
                                 weight.count() == 1,
                                 statistics ? statistics->data() : nullptr,
                                 output_gradient.data(),
                                 sizes.rows,
                                 sizes.width,
                                 workspace.data(),
                                 nullptr,
                                 nullptr,
                                 row_mask(operation, mask, sizes.rows, read)};
  msstream::detail::Uses<AnyRuntime, AccessMode::write> written;
  if (wanted.left) {
    args.input_gradient = gradients.left.emplace(device, input.shape()).data();
    written.add(*gradients.left);
  }
  if (wanted.right) {
    args.weight_gradient = gradients.right.emplace(device, weight.shape()).data();
    written.add(*gradients.right);
  }
  issue(
      operation,
      read,
      workspace.with(written),
      [args](auto stream) { kernels::gate_gradient(stream, args); },
      {},
      issued_at);
  return gradients;
}

}  // namespace

RowsAndWidth require_gate(char const* operation, Floats const& input, Floats const& weight) {
  auto const sizes = rows_and_width(operation, input.shape());
  require(weight.count() == 1 || weight.shape() == Shape{sizes.width},
          "{}: input {}, weight {}; expected [..., width], and [width] or one element",
          operation,
          input.shape(),
          weight.shape());
  return sizes;
}

Floats prelu(Floats const& input, Floats const& weight, std::source_location issued_at) {
  auto const sizes = require_gate("prelu", input, weight);
  Floats output(input.device(), input.shape());
  auto const args = gate_args(kernels::Gate::prelu, input, weight, {}, output, sizes);
  issue(
      "prelu",
      reads(input, weight),
      writes(output),
      [args](auto stream) { kernels::gate(stream, args); },
      {},
      issued_at);
  return output;
}

OperandGradients<AnyRuntime> prelu_gradient(Floats const& input,
                                            Floats const& weight,
                                            Floats const& output_gradient,
                                            WantedOperands wanted,
                                            std::source_location issued_at) {
  return gate_gradient("prelu_gradient",
                       kernels::Gate::prelu,
                       input,
                       weight,
                       std::nullopt,
                       output_gradient,
                       wanted,
                       std::nullopt,
                       issued_at);
}

BatchNormResult<AnyRuntime> dice(Floats const& input,
                                 Floats const& weight,
                                 RunningStatistics<AnyRuntime> const& running,
                                 BatchNormOptions<AnyRuntime> const& options,
                                 std::source_location issued_at) {
  auto const sizes = require_gate("dice", input, weight);
  require_batch_norm("dice", sizes.width, running, options);
  auto statistics = column_statistics("dice_statistics", input, sizes, running, options, issued_at);
  return {dice_by(statistics, input, weight, issued_at), statistics};
}

Floats dice_by(Floats const& statistics,
               Floats const& input,
               Floats const& weight,
               std::source_location issued_at) {
  auto const sizes = rows_and_width("dice", input.shape());
  Floats output(input.device(), input.shape());
  auto const args = gate_args(kernels::Gate::dice,
                              input,
                              weight,
                              {statistics.data(), nullptr, nullptr, 0.0F},
                              output,
                              sizes);
  issue(
      "dice",
      reads(input, weight, statistics),
      writes(output),
      [args](auto stream) { kernels::gate(stream, args); },
      {},
      issued_at);
  return output;
}

Floats dice_inference(Floats const& input,
                      Floats const& weight,
                      RunningStatistics<AnyRuntime> const& running,
                      BatchNormOptions<AnyRuntime> const& options,
                      std::source_location issued_at) {
  auto const sizes = require_gate("dice_inference", input, weight);
  require_batch_norm("dice_inference", sizes.width, running, options);
  Floats output(input.device(), input.shape());
  auto const args =
      gate_args(kernels::Gate::dice, input, weight, moments_of(running, options), output, sizes);
  issue(
      "dice_inference",
      reads(input, weight, running.mean, running.variance),
      writes(output),
      [args](auto stream) { kernels::gate(stream, args); },
      {},
      issued_at);
  return output;
}

OperandGradients<AnyRuntime> dice_gradient(Floats const& input,
                                           Floats const& weight,
                                           Floats const& statistics,
                                           Floats const& output_gradient,
                                           WantedOperands wanted,
                                           std::optional<Floats> const& mask,
                                           std::source_location issued_at) {
  return gate_gradient("dice_gradient",
                       kernels::Gate::dice,
                       input,
                       weight,
                       statistics,
                       output_gradient,
                       wanted,
                       mask,
                       issued_at);
}

}  // namespace msstream::ops::detail
