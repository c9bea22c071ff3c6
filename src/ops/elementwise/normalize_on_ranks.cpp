// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/normalize_on_ranks.hpp"

#include "normalize/gates.hpp"
#include "ops/common/workspace.hpp"
#include "ops/elementwise/normalize.hpp"

#include <msstream/tensor/issue.hpp>

#include <cstddef>

namespace msstream::ops::detail {
namespace {

/// Returns memory for `count` sums of each column.
[[nodiscard]] SumsOfRows make_sums(Floats const& input, std::int64_t count, std::int64_t width) {
  return {input.device(), {count * width * static_cast<std::int64_t>(sizeof(double))}};
}
[[nodiscard]] double* doubles_of(SumsOfRows const& sums) {
  return reinterpret_cast<double*>(sums.data());
}
/// Returns the number of ranks whose `count` sums of each column there are.
[[nodiscard]] std::int64_t rank_count(SumsOfRows const& sums,
                                      std::int64_t count,
                                      std::int64_t width) {
  auto const bytes = count * width * static_cast<std::int64_t>(sizeof(double));
  return bytes == 0 ? 0 : sums.count() / bytes;
}

[[nodiscard]] kernels::BatchNormGradientArgs norm_args(NormalisedRows const& rows,
                                                       Floats const& output_gradient,
                                                       RowsAndWidth const& sizes) {
  return {.input = rows.input.data(),
          .weight = rows.weight.data(),
          .statistics = rows.statistics.data(),
          .output_gradient = output_gradient.data(),
          .rows = sizes.rows,
          .width = sizes.width,
          .workspace = nullptr,
          .input_gradient = nullptr,
          .weight_gradient = nullptr,
          .bias_gradient = nullptr};
}
[[nodiscard]] kernels::GateGradientArgs dice_args(NormalisedRows const& rows,
                                                  Floats const& output_gradient,
                                                  RowsAndWidth const& sizes) {
  return {.gate = kernels::Gate::dice,
          .input = rows.input.data(),
          .weight = rows.weight.data(),
          .one_weight = rows.weight.count() == 1,
          .statistics = rows.statistics.data(),
          .output_gradient = output_gradient.data(),
          .rows = sizes.rows,
          .width = sizes.width,
          .workspace = nullptr,
          .input_gradient = nullptr,
          .weight_gradient = nullptr};
}

/// Returns the gradient of normalised rows by launch(stream, args, sums, ranks), from the
/// `sum_count` sums of each column that each rank has. `args_of` makes the arguments.
template <class ArgsOf, class Launch>
[[nodiscard]] Floats input_gradient(char const* operation,
                                    NormalisedRows const& rows,
                                    Floats const& output_gradient,
                                    SumsOfRows const& sums,
                                    ArgsOf const& args_of,
                                    std::int64_t sum_count,
                                    Launch launch,
                                    std::source_location issued_at) {
  auto const sizes = rows_and_width(operation, rows.input.shape());
  Floats gradient(rows.input.device(), rows.input.shape());
  auto read = reads(rows.input, rows.weight, rows.statistics, output_gradient, sums);
  auto args = args_of(rows, output_gradient, sizes);
  args.input_gradient = gradient.data();
  args.mask = row_mask(operation, rows.mask, sizes.rows, read);
  issue(
      operation,
      read,
      writes(gradient),
      [args, launch, from = doubles_of(sums), ranks = rank_count(sums, sum_count, sizes.width)](
          auto stream) { launch(stream, args, from, ranks); },
      {},
      issued_at);
  return gradient;
}

}  // namespace

SumsOfRows column_sums(char const* operation,
                       Floats const& input,
                       std::optional<Floats> const& mask,
                       std::source_location issued_at) {
  auto const sizes = rows_and_width(operation, input.shape());
  auto const& device = input.device();
  auto sums = make_sums(input, kernels::kColumnSums, sizes.width);
  auto read = reads(input);
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::column_statistics_workspace_bytes(
                                  stream, sizes.rows, sizes.width);
                            }));
  kernels::ColumnStatisticsArgs const args{.input = input.data(),
                                           .rows = sizes.rows,
                                           .width = sizes.width,
                                           .epsilon = 0.0F,
                                           .momentum = 0.0F,
                                           .statistics = nullptr,
                                           .running_mean = nullptr,
                                           .running_variance = nullptr,
                                           .workspace = workspace.data(),
                                           .mask = row_mask(operation, mask, sizes.rows, read)};
  issue(
      operation,
      read,
      workspace.with(writes(sums)),
      [args, to = doubles_of(sums)](auto stream) { kernels::column_sums(stream, args, to); },
      {},
      issued_at);
  return sums;
}

Floats finish_columns(char const* operation,
                      SumsOfRows const& sums,
                      RunningStatistics<AnyRuntime> const& running,
                      BatchNormOptions<AnyRuntime> const& options,
                      std::source_location issued_at) {
  auto const width = running.mean.count();
  Floats statistics(sums.device(), {4, width});
  kernels::ColumnStatisticsArgs const args{.input = nullptr,
                                           .rows = 0,
                                           .width = width,
                                           .epsilon = options.epsilon,
                                           .momentum = options.momentum,
                                           .statistics = statistics.data(),
                                           .running_mean = running.mean.data(),
                                           .running_variance = running.variance.data(),
                                           .workspace = nullptr};
  issue(
      operation,
      reads(sums),
      writes(statistics, running.mean, running.variance),
      [args, from = doubles_of(sums), ranks = rank_count(sums, kernels::kColumnSums, width)](
          auto stream) { kernels::finish_columns(stream, args, from, ranks); },
      {},
      issued_at);
  return statistics;
}

GradientsOfRows batch_norm_gradient_sums(NormalisedRows const& rows,
                                         Floats const& output_gradient,
                                         std::source_location issued_at) {
  constexpr char const* kName = "batch_norm_gradient_sums";
  require_gradient_of_rows(kName, rows.input, output_gradient, rows.statistics);
  auto const sizes = rows_and_width(kName, rows.input.shape());
  auto const& device = rows.input.device();
  GradientsOfRows gradients{Floats(device, {sizes.width}),
                            Floats(device, {sizes.width}),
                            make_sums(rows.input, kernels::kNormGradientSums, sizes.width)};
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::batch_norm_gradient_workspace_bytes(
                                  stream, sizes.rows, sizes.width);
                            }));
  auto args = norm_args(rows, output_gradient, sizes);
  args.workspace = workspace.data();
  args.weight_gradient = gradients.weight.data();
  args.bias_gradient = gradients.bias->data();
  issue(
      kName,
      reads(rows.input, rows.weight, rows.statistics, output_gradient),
      workspace.with(writes(gradients.weight, *gradients.bias, gradients.sums)),
      [args, to = doubles_of(gradients.sums)](auto stream) {
        kernels::batch_norm_gradient_sums(stream, args, to);
      },
      {},
      issued_at);
  return gradients;
}

GradientsOfRows dice_gradient_sums(NormalisedRows const& rows,
                                   Floats const& output_gradient,
                                   std::source_location issued_at) {
  constexpr char const* kName = "dice_gradient_sums";
  require_gradient_of_rows(kName, rows.input, output_gradient, rows.statistics);
  auto const sizes = require_gate(kName, rows.input, rows.weight);
  auto const& device = rows.input.device();
  GradientsOfRows gradients{Floats(device, rows.weight.shape()),
                            std::nullopt,
                            make_sums(rows.input, kernels::kGateSums, sizes.width)};
  Workspace const workspace(device, ask_kernels(*device, [&](auto stream) {
                              return kernels::gate_gradient_workspace_bytes(
                                  stream, sizes.rows, sizes.width);
                            }));
  auto args = dice_args(rows, output_gradient, sizes);
  args.workspace = workspace.data();
  args.weight_gradient = gradients.weight.data();
  issue(
      kName,
      reads(rows.input, rows.weight, rows.statistics, output_gradient),
      workspace.with(writes(gradients.weight, gradients.sums)),
      [args, to = doubles_of(gradients.sums)](auto stream) {
        kernels::gate_gradient_sums(stream, args, to);
      },
      {},
      issued_at);
  return gradients;
}

Floats batch_norm_input_gradient(NormalisedRows const& rows,
                                 Floats const& output_gradient,
                                 SumsOfRows const& sums,
                                 std::source_location issued_at) {
  return input_gradient(
      "batch_norm_input_gradient",
      rows,
      output_gradient,
      sums,
      norm_args,
      kernels::kNormGradientSums,
      [](auto stream, auto const& args, double const* from, std::int64_t ranks) {
        kernels::batch_norm_input_gradient(stream, args, from, ranks);
      },
      issued_at);
}

Floats dice_input_gradient(NormalisedRows const& rows,
                           Floats const& output_gradient,
                           SumsOfRows const& sums,
                           std::source_location issued_at) {
  return input_gradient(
      "dice_input_gradient",
      rows,
      output_gradient,
      sums,
      dice_args,
      kernels::kGateSums,
      [](auto stream, auto const& args, double const* from, std::int64_t ranks) {
        kernels::gate_input_gradient(stream, args, from, ranks);
      },
      issued_at);
}

}  // namespace msstream::ops::detail
