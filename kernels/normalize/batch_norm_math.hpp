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

/// Stores the statistics of a column from its mean and the sum of the squared deviations from it.
/// The running ones stay as they are if the batch has no unbiased variance, or statistics that are
/// not finite: NaN would never leave them.
MSSTREAM_HOST_DEVICE inline void store_statistics(ColumnStatisticsArgs const& args,
                                                  std::int64_t column,
                                                  double mean,
                                                  double deviations,
                                                  double rows) {
  auto* const statistics = args.statistics + column;
  statistics[3 * args.width] = static_cast<float>(rows);
  if (rows == 0.0) {
    statistics[0] = 0.0F;
    statistics[args.width] = 0.0F;
    statistics[2 * args.width] = 1.0F;
    return;
  }
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

/// Stores the statistics of a column from the sums of the deviations from its pivot, of their
/// squares, and of the rows that count.
MSSTREAM_HOST_DEVICE inline void finish_statistics(ColumnStatisticsArgs const& args,
                                                   std::int64_t column,
                                                   double sum,
                                                   double squares,
                                                   double rows) {
  double const from_pivot = rows == 0.0 ? 0.0 : sum / rows;
  store_statistics(
      args, column, pivot_of(args, column) + from_pivot, squares - sum * from_pivot, rows);
}

/// Stores the statistics of a column from the sums of all ranks, [ranks, kColumnSums, width]: see
/// column_sums(). The squares of the deviations of each rank from its own mean are added, and those
/// of the means from the mean of all (Chan, Golub, LeVeque, 1979).
MSSTREAM_HOST_DEVICE inline void finish_statistics_of_ranks(ColumnStatisticsArgs const& args,
                                                            std::int64_t column,
                                                            double const* sums,
                                                            std::int64_t ranks) {
  auto const at = [&](std::int64_t rank, std::int64_t k) {
    return sums[(rank * kColumnSums + k) * args.width + column];
  };
  double rows = 0.0;
  double pivot = 0.0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (rows == 0.0 && at(rank, 3) > 0.0) {
      pivot = at(rank, 0);
    }
    rows += at(rank, 3);
  }
  double sum = 0.0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (at(rank, 3) > 0.0) {
      sum += at(rank, 3) * (at(rank, 0) - pivot) + at(rank, 1);
    }
  }
  double const from_pivot = rows == 0.0 ? 0.0 : sum / rows;
  double deviations = 0.0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (at(rank, 3) > 0.0) {
      double const of_rank = at(rank, 1) / at(rank, 3);
      double const off = at(rank, 0) - pivot + of_rank - from_pivot;
      double const own = at(rank, 2) - at(rank, 1) * of_rank;
      deviations += (own < 0.0 ? 0.0 : own) + at(rank, 3) * off * off;
    }
  }
  store_statistics(args, column, pivot + from_pivot, deviations, rows);
}

/// Returns number k of the `count` sums of a column, added over all ranks: [ranks, count, width].
MSSTREAM_HOST_DEVICE inline double sum_over_ranks(double const* sums,
                                                  std::int64_t ranks,
                                                  std::int64_t count,
                                                  std::int64_t k,
                                                  std::int64_t width,
                                                  std::int64_t column) {
  double sum = 0.0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    sum += sums[(rank * count + k) * width + column];
  }
  return sum;
}

}  // namespace msstream::ops::kernels
