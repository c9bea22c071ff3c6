// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/normalize.hpp"

#include "normalize/l2_normalize.hpp"
#include "ops/common/workspace.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/normalize.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {
namespace {

void require_norm_epsilon(char const* operation, float epsilon) {
  require(std::isfinite(epsilon) && epsilon > 0.0F,
          "{}: epsilon {}; expected a number in (0, infinity)",
          operation,
          epsilon);
}

}  // namespace

RowsAndWidth rows_and_width(char const* operation, Shape const& shape) {
  require(shape.rank() > 0, "{}: input {}; expected [..., width]", operation, shape);
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < shape.rank(); ++d) {
    rows *= shape[d];
  }
  return {rows, shape[shape.rank() - 1]};
}

RowsAndWidth require_columns(char const* operation,
                             Shape const& input,
                             Shape const& weight,
                             Shape const& bias) {
  auto const sizes = rows_and_width(operation, input);
  require(weight == Shape{sizes.width} && bias == Shape{sizes.width},
          "{}: input {}, weight {}, bias {}; expected [..., width] and twice [width]",
          operation,
          input,
          weight,
          bias);
  return sizes;
}

void require_gradient_of_rows(char const* operation,
                              Floats const& input,
                              Floats const& output_gradient,
                              Floats const& statistics) {
  auto const width = rows_and_width(operation, input.shape()).width;
  require(output_gradient.shape() == input.shape() && statistics.shape() == (Shape{4, width}),
          "{}: input {}, output gradient {}, statistics {}",
          operation,
          input.shape(),
          output_gradient.shape(),
          statistics.shape());
}

void require_batch_norm(char const* operation,
                        std::int64_t width,
                        RunningStatistics<AnyRuntime> const& running,
                        BatchNormOptions<AnyRuntime> const& options) {
  require(running.mean.shape() == Shape{width} && running.variance.shape() == Shape{width},
          "{}: running mean {} and variance {}; expected [{}]",
          operation,
          running.mean.shape(),
          running.variance.shape(),
          width);
  require(options.momentum >= 0.0F && options.momentum <= 1.0F,
          "{}: momentum of {}; expected a number in [0, 1]",
          operation,
          options.momentum);
  require(std::isfinite(options.epsilon) && options.epsilon >= 0.0F,
          "{}: epsilon of {}; expected a number in [0, infinity)",
          operation,
          options.epsilon);
}

kernels::RowMask row_mask(char const* operation,
                          std::optional<Floats> const& mask,
                          std::int64_t rows,
                          msstream::detail::Uses<AnyRuntime, AccessMode::read>& read) {
  if (!mask) {
    return {};
  }
  auto const marks = mask->count();
  require(marks == 0 ? rows == 0 : rows % marks == 0,
          "{}: a mask {} for {} rows; expected an element for each row, or for each run of as many",
          operation,
          mask->shape(),
          rows);
  read.add(*mask);
  return {mask->data(), marks == 0 ? 1 : rows / marks};
}

Floats column_statistics(char const* operation,
                         Floats const& input,
                         RowsAndWidth const& sizes,
                         RunningStatistics<AnyRuntime> const& running,
                         BatchNormOptions<AnyRuntime> const& options,
                         std::source_location issued_at) {
  auto const& device = input.device();
  Floats statistics(device, {4, sizes.width});
  auto read = reads(input);
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::column_statistics_workspace_bytes(
                                  stream, sizes.rows, sizes.width);
                            }));
  kernels::ColumnStatisticsArgs const args{input.data(),
                                           sizes.rows,
                                           sizes.width,
                                           options.epsilon,
                                           options.momentum,
                                           statistics.data(),
                                           running.mean.data(),
                                           running.variance.data(),
                                           workspace.data(),
                                           row_mask(operation, options.mask, sizes.rows, read)};
  issue(
      operation,
      read,
      workspace.with(writes(statistics, running.mean, running.variance)),
      [args](auto stream) { kernels::column_statistics(stream, args); },
      {},
      issued_at);
  return statistics;
}

BatchNormResult<AnyRuntime> batch_norm(Floats const& input,
                                       Floats const& weight,
                                       Floats const& bias,
                                       RunningStatistics<AnyRuntime> const& running,
                                       BatchNormOptions<AnyRuntime> const& options,
                                       std::source_location issued_at) {
  auto const sizes = require_columns("batch_norm", input.shape(), weight.shape(), bias.shape());
  require_batch_norm("batch_norm", sizes.width, running, options);
  auto statistics =
      column_statistics("batch_norm_statistics", input, sizes, running, options, issued_at);
  return {batch_norm_by(statistics, input, weight, bias, issued_at), statistics};
}

Floats batch_norm_by(Floats const& statistics,
                     Floats const& input,
                     Floats const& weight,
                     Floats const& bias,
                     std::source_location issued_at) {
  auto const sizes = rows_and_width("batch_norm", input.shape());
  Floats output(input.device(), input.shape());
  kernels::BatchNormArgs const args{input.data(),
                                    weight.data(),
                                    bias.data(),
                                    {statistics.data(), nullptr, nullptr, 0.0F},
                                    output.data(),
                                    sizes.rows,
                                    sizes.width};
  issue(
      "batch_norm",
      reads(input, weight, bias, statistics),
      writes(output),
      [args](auto stream) { kernels::batch_norm(stream, args); },
      {},
      issued_at);
  return output;
}

Floats batch_norm_inference(Floats const& input,
                            Floats const& weight,
                            Floats const& bias,
                            RunningStatistics<AnyRuntime> const& running,
                            BatchNormOptions<AnyRuntime> const& options,
                            std::source_location issued_at) {
  constexpr char const* kName = "batch_norm_inference";
  auto const sizes = require_columns(kName, input.shape(), weight.shape(), bias.shape());
  require_batch_norm(kName, sizes.width, running, options);
  Floats output(input.device(), input.shape());
  kernels::BatchNormArgs const args{input.data(),
                                    weight.data(),
                                    bias.data(),
                                    moments_of(running, options),
                                    output.data(),
                                    sizes.rows,
                                    sizes.width};
  issue(
      kName,
      reads(input, weight, bias, running.mean, running.variance),
      writes(output),
      [args](auto stream) { kernels::batch_norm(stream, args); },
      {},
      issued_at);
  return output;
}

LayerNormGradients<AnyRuntime> batch_norm_gradient(Floats const& input,
                                                   Floats const& weight,
                                                   Floats const& statistics,
                                                   Floats const& output_gradient,
                                                   WantedOfLayerNorm wanted,
                                                   std::optional<Floats> const& mask,
                                                   std::source_location issued_at) {
  constexpr char const* kName = "batch_norm_gradient";
  auto const sizes = require_columns(kName, input.shape(), weight.shape(), weight.shape());
  require_gradient_of_rows(kName, input, output_gradient, statistics);
  LayerNormGradients<AnyRuntime> gradients;
  if (!wanted.input && !wanted.parameters) {
    return gradients;
  }
  auto const& device = input.device();
  auto read = reads(input, weight, statistics, output_gradient);
  auto const counting = row_mask(kName, mask, sizes.rows, read);
  gradients.weight.emplace(device, Shape{sizes.width});
  gradients.bias.emplace(device, Shape{sizes.width});
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::batch_norm_gradient_workspace_bytes(
                                  stream, sizes.rows, sizes.width);
                            }));
  kernels::BatchNormGradientArgs args{input.data(),
                                      weight.data(),
                                      statistics.data(),
                                      output_gradient.data(),
                                      sizes.rows,
                                      sizes.width,
                                      workspace.data(),
                                      nullptr,
                                      gradients.weight->data(),
                                      gradients.bias->data(),
                                      counting};
  auto written = workspace.with(writes(*gradients.weight, *gradients.bias));
  if (wanted.input) {
    args.input_gradient = gradients.input.emplace(device, input.shape()).data();
    written.add(*gradients.input);
  }
  issue(
      kName,
      read,
      written,
      [args](auto stream) { kernels::batch_norm_gradient(stream, args); },
      {},
      issued_at);
  return gradients;
}

Floats l2_normalize(Floats const& input, float epsilon, std::source_location issued_at) {
  auto const sizes = rows_and_width("l2_normalize", input.shape());
  require_norm_epsilon("l2_normalize", epsilon);
  Floats output(input.device(), input.shape());
  kernels::L2NormalizeArgs const args{
      input.data(), output.data(), sizes.rows, sizes.width, epsilon};
  issue(
      "l2_normalize",
      reads(input),
      writes(output),
      [args](auto stream) { kernels::l2_normalize(stream, args); },
      {},
      issued_at);
  return output;
}

Floats l2_normalize_gradient(Floats const& input,
                             Floats const& output_gradient,
                             float epsilon,
                             std::source_location issued_at) {
  constexpr char const* kName = "l2_normalize_gradient";
  auto const sizes = rows_and_width(kName, input.shape());
  require_norm_epsilon(kName, epsilon);
  require(input.shape() == output_gradient.shape(),
          "{}: input {}, output gradient {}",
          kName,
          input.shape(),
          output_gradient.shape());
  Floats gradient(input.device(), input.shape());
  kernels::L2NormalizeGradientArgs const args{
      input.data(), output_gradient.data(), gradient.data(), sizes.rows, sizes.width, epsilon};
  issue(
      kName,
      reads(input, output_gradient),
      writes(gradient),
      [args](auto stream) { kernels::l2_normalize_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

}  // namespace msstream::ops::detail
