// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/normalize.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

/// The parts of batch_norm() and dice(), and of their gradients, for a batch whose rows are on
/// several ranks. Each rank sums its own rows, and computes its results from the sums of all ranks.
namespace msstream::ops::detail {

/// Sums in float64, as bytes. Those of all ranks follow each other in the order of the ranks.
using SumsOfRows = TensorOf<std::uint8_t>;

/// Returns the sums from which finish_columns() computes statistics.
[[nodiscard]] SumsOfRows column_sums(char const* operation,
                                     Floats const& input,
                                     std::optional<Floats> const& mask,
                                     std::source_location issued_at);
/// Returns the statistics of the batch, [4, width], from the sums of all ranks, and updates the
/// running ones, which are equal on all ranks if they were before.
[[nodiscard]] Floats finish_columns(char const* operation,
                                    SumsOfRows const& sums,
                                    RunningStatistics<AnyRuntime> const& running,
                                    BatchNormOptions<AnyRuntime> const& options,
                                    std::source_location issued_at);

/// The tensors from which the gradients of batch_norm() and dice() are computed.
struct NormalisedRows {
  Floats input;
  Floats weight;
  Floats statistics;
  std::optional<Floats> mask;
};

/// The gradients of weight and bias over the rows of this rank, and the sums for the gradient of
/// the input. Dice has no bias.
struct GradientsOfRows {
  Floats weight;
  std::optional<Floats> bias;
  SumsOfRows sums;
};
[[nodiscard]] GradientsOfRows batch_norm_gradient_sums(NormalisedRows const& rows,
                                                       Floats const& output_gradient,
                                                       std::source_location issued_at);
[[nodiscard]] GradientsOfRows dice_gradient_sums(NormalisedRows const& rows,
                                                 Floats const& output_gradient,
                                                 std::source_location issued_at);

/// Returns the gradient of the input from the sums of all ranks.
[[nodiscard]] Floats batch_norm_input_gradient(NormalisedRows const& rows,
                                               Floats const& output_gradient,
                                               SumsOfRows const& sums,
                                               std::source_location issued_at);
[[nodiscard]] Floats dice_input_gradient(NormalisedRows const& rows,
                                         Floats const& output_gradient,
                                         SumsOfRows const& sums,
                                         std::source_location issued_at);

}  // namespace msstream::ops::detail
