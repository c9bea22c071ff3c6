// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/is_finite.hpp"
#include "common/long_sum.hpp"
#include "normalize/batch_norm.hpp"

#include <cmath>

/// The formulae of batch normalisation that the host and CUDA implementations share.
namespace msstream::ops::kernels {

/// The normalisation of one column.
struct ColumnNorm {
  SplitFloat mean;
  float reciprocal;

  MSSTREAM_HOST_DEVICE ColumnNorm(ColumnMoments const& moments,
                                  std::int64_t width,
                                  std::int64_t column)
      : mean{}, reciprocal(1.0F) {
    if (moments.statistics != nullptr) {
      mean = {moments.statistics[column], moments.statistics[width + column]};
      reciprocal = moments.statistics[2 * width + column];
    } else {
      mean = {moments.running_mean[column], 0.0F};
      reciprocal = 1.0F / std::sqrt(moments.running_variance[column] + moments.epsilon);
    }
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float operator()(float x) const {
    return mean.deviation_of(x) * reciprocal;
  }
};

/// Returns the number from which a column's deviations are summed: its first element, if there is
/// one and it is finite. The row of that element need not count.
MSSTREAM_HOST_DEVICE inline double pivot_of(ColumnStatisticsArgs const& args, std::int64_t column) {
  float const first = args.rows > 0 ? args.input[column] : 0.0F;
  return is_finite(first) ? static_cast<double>(first) : 0.0;
}

/// Stores the statistics of a column from the sums of the deviations from its pivot, of their
/// squares, and of the rows that count. The running ones stay as they are if the batch has no
/// unbiased variance, or statistics that are not finite: NaN would never leave them.
MSSTREAM_HOST_DEVICE inline void finish_statistics(ColumnStatisticsArgs const& args,
                                                   std::int64_t column,
                                                   double sum,
                                                   double squares,
                                                   double rows) {
  auto* const statistics = args.statistics + column;
  statistics[3 * args.width] = static_cast<float>(rows);
  if (rows == 0.0) {
    statistics[0] = 0.0F;
    statistics[args.width] = 0.0F;
    statistics[2 * args.width] = 1.0F;
    return;
  }
  double const from_pivot = sum / rows;
  double const mean = pivot_of(args, column) + from_pivot;
  double const deviations = squares - sum * from_pivot;
  double const variance = (deviations < 0.0 ? 0.0 : deviations) / rows;  // NaN stays NaN
  auto const rounded = static_cast<float>(mean);
  statistics[0] = rounded;
  statistics[args.width] = static_cast<float>(mean - static_cast<double>(rounded));
  statistics[2 * args.width] =
      static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(args.epsilon)));
  if (rows < 2.0) {
    return;
  }
  double const unbiased = variance * rows / (rows - 1.0);
  if (!is_finite(rounded) || !is_finite(static_cast<float>(unbiased))) {
    return;
  }
  double const share = args.momentum;
  auto const update = [&](float& running, double batch) {
    running = static_cast<float>((1.0 - share) * static_cast<double>(running) + share * batch);
  };
  update(args.running_mean[column], mean);
  update(args.running_variance[column], unbiased);
}

}  // namespace msstream::ops::kernels
