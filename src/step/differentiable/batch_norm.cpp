// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/normalize.hpp"
#include "ops/elementwise/normalize_on_ranks.hpp"
#include "step/recorded.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/ops/activation.hpp>
#include <msstream/ops/normalize.hpp>
#include <msstream/step/differentiable/activation.hpp>
#include <msstream/step/differentiable/layers.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <optional>
#include <source_location>

namespace msstream::ops::detail {
namespace {

/// Returns the sums of all ranks. They are gathered, and each rank adds them, because no collective
/// adds float64.
[[nodiscard]] SumsOfRows gathered(Ranks const& ranks,
                                  SumsOfRows const& own,
                                  std::source_location issued_at) {
  SumsOfRows all(own.device(), {ranks->size() * own.count()});
  comm::detail::all_gather(*ranks, own.any(), all.any(), issued_at);
  return all;
}

[[nodiscard]] bool is_on_ranks(Ranks const& ranks) {
  return ranks && ranks->size() > 1;
}

/// Returns the statistics of the rows of all ranks.
[[nodiscard]] Floats statistics_on_ranks(char const* operation,
                                         Ranks const& ranks,
                                         Floats const& input,
                                         RunningStatistics<AnyRuntime> const& running,
                                         BatchNormOptions<AnyRuntime> const& options,
                                         std::source_location issued_at) {
  auto const own = column_sums(operation, input, options.mask, issued_at);
  return finish_columns(operation, gathered(ranks, own, issued_at), running, options, issued_at);
}

[[nodiscard]] BatchNormResult<AnyRuntime> batch_norm_on_ranks(
    Ranks const& ranks,
    Floats const& input,
    Floats const& weight,
    Floats const& bias,
    RunningStatistics<AnyRuntime> const& running,
    BatchNormOptions<AnyRuntime> const& options,
    std::source_location issued_at) {
  auto const sizes = require_columns("batch_norm", input.shape(), weight.shape(), bias.shape());
  require_batch_norm("batch_norm", sizes.width, running, options);
  auto const statistics =
      statistics_on_ranks("batch_norm_statistics", ranks, input, running, options, issued_at);
  return {batch_norm_by(statistics, input, weight, bias, issued_at), statistics};
}

[[nodiscard]] BatchNormResult<AnyRuntime> dice_on_ranks(
    Ranks const& ranks,
    Floats const& input,
    Floats const& weight,
    RunningStatistics<AnyRuntime> const& running,
    BatchNormOptions<AnyRuntime> const& options,
    std::source_location issued_at) {
  auto const sizes = require_gate("dice", input, weight);
  require_batch_norm("dice", sizes.width, running, options);
  auto const statistics =
      statistics_on_ranks("dice_statistics", ranks, input, running, options, issued_at);
  return {dice_by(statistics, input, weight, issued_at), statistics};
}

}  // namespace

Floats batch_norm(AnyTape& tape,
                  Floats const& input,
                  Floats const& weight,
                  Floats const& bias,
                  RunningStatistics<AnyRuntime> const& running,
                  BatchNormOptions<AnyRuntime> const& options,
                  Ranks const& ranks,
                  std::source_location issued_at) {
  if (!tape.is_recording()) {
    return batch_norm_inference(input, weight, bias, running, options, issued_at);
  }
  bool const on_ranks = is_on_ranks(ranks);
  auto const result =
      on_ranks ? batch_norm_on_ranks(ranks, input, weight, bias, running, options, issued_at)
               : batch_norm(input, weight, bias, running, options, issued_at);
  NormalisedRows const rows{input, weight, result.statistics, options.mask};
  tape.note_inputs(input, weight, bias);
  tape.record(
      "batch_norm",
      result.output,
      [rows, bias, ranks, on_ranks, issued_at](AnyTape& playing, Floats const& gradient) {
        WantedOfLayerNorm const wanted{.input = playing.wants_gradient(rows.input.any()),
                                       .parameters = playing.wants_gradient(rows.weight.any()) ||
                                                     playing.wants_gradient(bias.any())};
        LayerNormGradients<AnyRuntime> gradients;
        if (!on_ranks) {
          gradients = batch_norm_gradient(
              rows.input, rows.weight, rows.statistics, gradient, wanted, rows.mask, issued_at);
        } else if (wanted.input || wanted.parameters) {
          auto const own = batch_norm_gradient_sums(rows, gradient, issued_at);
          gradients.weight = own.weight;
          gradients.bias = own.bias;
          if (wanted.input) {
            gradients.input = batch_norm_input_gradient(
                rows, gradient, gathered(ranks, own.sums, issued_at), issued_at);
          }
        }
        if (gradients.input) {
          playing.add_gradient(rows.input, *gradients.input, issued_at);
        }
        if (gradients.weight) {
          playing.add_gradient(rows.weight, *gradients.weight, issued_at);
          playing.add_gradient(bias, *gradients.bias, issued_at);
        }
      },
      issued_at);
  return result.output;
}

Floats dice(AnyTape& tape,
            Floats const& input,
            Floats const& weight,
            RunningStatistics<AnyRuntime> const& running,
            BatchNormOptions<AnyRuntime> const& options,
            Ranks const& ranks,
            std::source_location issued_at) {
  if (!tape.is_recording()) {
    return dice_inference(input, weight, running, options, issued_at);
  }
  bool const on_ranks = is_on_ranks(ranks);
  auto const result = on_ranks ? dice_on_ranks(ranks, input, weight, running, options, issued_at)
                               : dice(input, weight, running, options, issued_at);
  NormalisedRows const rows{input, weight, result.statistics, options.mask};
  return recorded(
      tape,
      "dice",
      input,
      weight,
      result.output,
      [rows, ranks, on_ranks, issued_at](Floats const& gradient, WantedOperands wanted) {
        if (!on_ranks) {
          return dice_gradient(
              rows.input, rows.weight, rows.statistics, gradient, wanted, rows.mask, issued_at);
        }
        OperandGradients<AnyRuntime> gradients;
        if (wanted.left || wanted.right) {
          auto const own = dice_gradient_sums(rows, gradient, issued_at);
          if (wanted.right) {
            gradients.right = own.weight;
          }
          if (wanted.left) {
            gradients.left = dice_input_gradient(
                rows, gradient, gathered(ranks, own.sums, issued_at), issued_at);
          }
        }
        return gradients;
      },
      issued_at);
}

}  // namespace msstream::ops::detail
