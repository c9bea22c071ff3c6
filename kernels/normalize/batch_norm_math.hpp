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

/// Adds an element that counts to the kColumnSums sums of its column, all 0 without elements: the
/// pivot, the sums of the deviations from it and of their squares, and the number of elements. The
/// pivot is the first element, or 0 if that is not finite. An element that does not count must not
/// be the pivot: far from the others, it would cost the variance all its digits.
template <class Sums>
MSSTREAM_HOST_DEVICE void add_element(Sums& sums, float x) {
  if (sums[3] == 0.0) {
    sums[0] = is_finite(x) ? static_cast<double>(x) : 0.0;
  }
  double const deviation = static_cast<double>(x) - sums[0];
  sums[1] += deviation;
  sums[2] += deviation * deviation;
  sums[3] += 1.0;
}

/// Adds the sums of other elements of the column, about their own pivot.
template <class Sums>
MSSTREAM_HOST_DEVICE void add_elements(Sums& sums, Sums const& others) {
  sums[0] = sums[3] == 0.0 ? others[0] : sums[0];
  double const off = others[0] - sums[0];
  sums[2] += others[2] + off * (2.0 * others[1] + others[3] * off);
  sums[1] += others[1] + others[3] * off;
  sums[3] += others[3];
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

/// Stores the statistics of a column from the sums of add_element().
template <class Sums>
MSSTREAM_HOST_DEVICE void finish_statistics(ColumnStatisticsArgs const& args,
                                            std::int64_t column,
                                            Sums const& sums) {
  double const from_pivot = sums[3] == 0.0 ? 0.0 : sums[1] / sums[3];
  store_statistics(args, column, sums[0] + from_pivot, sums[2] - sums[1] * from_pivot, sums[3]);
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
