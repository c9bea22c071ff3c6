// SPDX-License-Identifier: Apache-2.0
#include "normalize/layer_norm.hpp"

#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/layer_norm.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cmath>
#include <cstdint>
#include <source_location>

namespace msstream::ops::detail {
namespace {

/// Throws std::invalid_argument unless `input` is [..., width] with width > 0, and weight and bias
/// are [width]. Returns the number of rows.
[[nodiscard]] std::int64_t require_layer_norm(char const* operation,
                                              Shape const& input,
                                              Shape const& weight,
                                              Shape const& bias) {
  auto const rank = input.rank();
  auto const width = rank > 0 ? input[rank - 1] : 0;
  require(width > 0 && weight.count() == width && bias.count() == width,
          "{}: input {}, weight {}, bias {}; expected [..., width] and twice [width]",
          operation,
          input,
          weight,
          bias);
  return input.count() / width;
}

}  // namespace

AnyLayerNormResult layer_norm(AnyTensor const& input,
                              Floats const& weight,
                              Floats const& bias,
                              float epsilon,
                              std::source_location issued_at) {
  auto const rows = require_layer_norm("layer_norm", input.shape(), weight.shape(), bias.shape());
  require(std::isfinite(epsilon) && epsilon >= 0.0F, "layer_norm: epsilon {}", epsilon);
  auto const& device = input.device();
  AnyLayerNormResult result{
      {device, input.dtype(), input.shape()}, {device, {rows}}, {device, {rows}}, {}};
  auto const& mean_rests = result.mean_rests.emplace(device, Shape{rows});
  kernels::LayerNormArgs const args{input.data(),
                                    weight.data(),
                                    bias.data(),
                                    result.output.data(),
                                    result.means.data(),
                                    result.reciprocals.data(),
                                    rows,
                                    weight.count(),
                                    epsilon,
                                    mean_rests.data(),
                                    input.dtype()};
  issue(
      "layer_norm",
      reads(input, weight, bias),
      writes(result.output, result.means, result.reciprocals, mean_rests),
      [args](auto stream) { kernels::layer_norm(stream, args); },
      {},
      issued_at);
  return result;
}

AnyLayerNormGradients layer_norm_gradient(AnyTensor const& input,
                                          Floats const& weight,
                                          AnyLayerNormResult const& result,
                                          AnyTensor const& output_gradient,
                                          WantedOfLayerNorm wanted,
                                          std::source_location issued_at) {
  auto const rows =
      require_layer_norm("layer_norm_gradient", input.shape(), weight.shape(), weight.shape());
  auto const& mean_rests = result.mean_rests ? *result.mean_rests : result.means;
  auto const* const rests = result.mean_rests ? mean_rests.data() : nullptr;
  require(output_gradient.dtype() == input.dtype(),
          "layer_norm_gradient: an output gradient of {}; expected one of {}, as the input",
          output_gradient.dtype(),
          input.dtype());
  require(output_gradient.shape() == input.shape() && result.means.count() == rows &&
              result.reciprocals.count() == rows && mean_rests.count() == rows,
          "layer_norm_gradient: input {}, output gradient {}, means {}, reciprocals {}, rests of "
          "the means {}",
          input.shape(),
          output_gradient.shape(),
          result.means.shape(),
          result.reciprocals.shape(),
          mean_rests.shape());
  auto const& device = input.device();
  auto const width = weight.count();
  AnyLayerNormGradients gradients;
  if (wanted.input) {
    gradients.input.emplace(device, input.dtype(), input.shape());
  }
  auto const read = reads(input, result.means, result.reciprocals, mean_rests, output_gradient);
  if (!wanted.parameters) {
    if (wanted.input) {
      kernels::LayerNormInputGradientArgs const args{input.data(),
                                                     weight.data(),
                                                     result.means.data(),
                                                     result.reciprocals.data(),
                                                     output_gradient.data(),
                                                     gradients.input->data(),
                                                     rows,
                                                     width,
                                                     rests,
                                                     input.dtype()};
      issue(
          "layer_norm_input_gradient",
          reads(weight, read),
          writes(*gradients.input),
          [args](auto stream) { kernels::layer_norm_input_gradient(stream, args); },
          {},
          issued_at);
    }
    return gradients;
  }
  gradients.weight.emplace(device, Shape{width});
  gradients.bias.emplace(device, Shape{width});
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::layer_norm_workspace_bytes(stream, rows, width);
                            }));
  kernels::LayerNormParameterGradientArgs const args{input.data(),
                                                     result.means.data(),
                                                     result.reciprocals.data(),
                                                     output_gradient.data(),
                                                     rows,
                                                     width,
                                                     workspace.data(),
                                                     gradients.weight->data(),
                                                     gradients.bias->data(),
                                                     rests,
                                                     input.dtype()};
  auto written = workspace.with(writes(*gradients.weight, *gradients.bias));
  if (!wanted.input) {
    issue(
        "layer_norm_parameter_gradient",
        read,
        written,
        [args](auto stream) { kernels::layer_norm_parameter_gradient(stream, args); },
        {},
        issued_at);
    return gradients;
  }
  written.add(*gradients.input);
  issue(
      "layer_norm_gradient",
      reads(weight, read),
      written,
      [args, weights = weight.data(), input_gradient = gradients.input->data()](auto stream) {
        kernels::layer_norm_gradient(stream, args, weights, input_gradient);
      },
      {},
      issued_at);
  return gradients;
}

}  // namespace msstream::ops::detail
