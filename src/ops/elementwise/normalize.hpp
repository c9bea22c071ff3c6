// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "normalize/batch_norm.hpp"

#include <msstream/ops/normalize.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {

/// The sizes of a matrix [..., width]: all but the last dimension are rows.
struct RowsAndWidth {
  std::int64_t rows;
  std::int64_t width;
};
/// Returns the sizes of `shape`. Throws std::invalid_argument for a shape without dimensions.
[[nodiscard]] RowsAndWidth rows_and_width(char const* operation, Shape const& shape);

/// Returns the sizes of an input [..., width]. Throws std::invalid_argument unless weight and bias
/// are [width].
[[nodiscard]] RowsAndWidth require_columns(char const* operation,
                                           Shape const& input,
                                           Shape const& weight,
                                           Shape const& bias);
/// Returns the sizes of an input [..., width]. Throws std::invalid_argument unless the weight of a
/// gate is [width], or has one element.
[[nodiscard]] RowsAndWidth require_gate(char const* operation,
                                        Floats const& input,
                                        Floats const& weight);
/// Throws std::invalid_argument unless the gradient of the output has the shape of the input, and
/// the statistics are [4, width].
void require_gradient_of_rows(char const* operation,
                              Floats const& input,
                              Floats const& output_gradient,
                              Floats const& statistics);
/// Throws std::invalid_argument unless the options are in their ranges, and the running statistics
/// are [width] each.
void require_batch_norm(char const* operation,
                        std::int64_t width,
                        RunningStatistics<AnyRuntime> const& running,
                        BatchNormOptions<AnyRuntime> const& options);

/// Returns the mask of a batch norm as a kernel takes it, or one that counts all rows, and adds it
/// to what an operation reads. Throws std::invalid_argument unless its elements divide the rows
/// evenly.
[[nodiscard]] kernels::RowMask row_mask(char const* operation,
                                        std::optional<Floats> const& mask,
                                        std::int64_t rows,
                                        msstream::detail::Uses<AnyRuntime, AccessMode::read>& read);

/// Issues the computation of the batch's statistics, which also updates the running ones, and
/// returns the former, [4, width].
[[nodiscard]] Floats column_statistics(char const* operation,
                                       Floats const& input,
                                       RowsAndWidth const& sizes,
                                       RunningStatistics<AnyRuntime> const& running,
                                       BatchNormOptions<AnyRuntime> const& options,
                                       std::source_location issued_at);

/// Issues batch_norm() by the statistics of a batch.
[[nodiscard]] Floats batch_norm_by(Floats const& statistics,
                                   Floats const& input,
                                   Floats const& weight,
                                   Floats const& bias,
                                   std::source_location issued_at);
/// Issues dice() by the statistics of a batch.
[[nodiscard]] Floats dice_by(Floats const& statistics,
                             Floats const& input,
                             Floats const& weight,
                             std::source_location issued_at);

/// Returns the running statistics as a kernel takes them.
[[nodiscard]] inline kernels::ColumnMoments moments_of(
    RunningStatistics<AnyRuntime> const& running, BatchNormOptions<AnyRuntime> const& options) {
  return {nullptr, running.mean.data(), running.variance.data(), options.epsilon};
}

}  // namespace msstream::ops::detail
