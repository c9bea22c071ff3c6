// SPDX-License-Identifier: Apache-2.0
#include "normalize/batch_norm.hpp"
#include "normalize/batch_norm_math.hpp"
#include "normalize/column_sums_host.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {

std::size_t column_statistics_workspace_bytes(HostStream /*stream*/,
                                              std::int64_t /*rows*/,
                                              std::int64_t /*width*/) {
  return 0;
}
namespace {

/// Calls finish(column, the sums of add_element()) for each column.
template <class Finish>
void sum_deviations(ColumnStatisticsArgs const& args, Finish const& finish) {
  sum_columns<kColumnSums>(
      args.rows,
      args.width,
      [&](std::int64_t row, std::int64_t column, auto& sums) {
        if (args.mask.counts(row)) {
          add_element(sums, args.input[row * args.width + column]);
        }
      },
      finish);
}

}  // namespace

void column_statistics(HostStream stream, ColumnStatisticsArgs const& args) {
  stream.run([args] {
    sum_deviations(args, [&](std::int64_t column, auto const& sums) {
      finish_statistics(args, column, sums);
    });
  });
}

void column_sums(HostStream stream, ColumnStatisticsArgs const& args, double* sums) {
  stream.run([args, sums] {
    sum_deviations(args, [&](std::int64_t column, auto const& of_column) {
      for (std::size_t k = 0; k < of_column.size(); ++k) {
        sums[static_cast<std::int64_t>(k) * args.width + column] = of_column[k];
      }
    });
  });
}
void finish_columns(HostStream stream,
                    ColumnStatisticsArgs const& args,
                    double const* sums,
                    std::int64_t ranks) {
  stream.run([args, sums, ranks] {
    for (std::int64_t column = 0; column < args.width; ++column) {
      finish_statistics_of_ranks(args, column, sums, ranks);
    }
  });
}

void batch_norm(HostStream stream, BatchNormArgs const& args) {
  stream.run([args] {
    map_columns(args.rows, args.width, [&](std::int64_t row, std::int64_t column) {
      auto const at = row * args.width + column;
      ColumnNorm const norm(args.moments, args.width, column);
      args.output[at] = norm(args.input[at]) * args.weight[column] + args.bias[column];
    });
  });
}

namespace {

[[nodiscard]] ColumnNorm norm_of(BatchNormGradientArgs const& args, std::int64_t column) {
  return {{args.statistics, nullptr, nullptr, 0.0F}, args.width, column};
}

void sum_gradients(BatchNormGradientArgs const& args, double* sums) {
  sum_columns<kNormGradientSums>(
      args.rows,
      args.width,
      [&](std::int64_t row, std::int64_t column, auto& of_column) {
        auto const at = row * args.width + column;
        double const dy = args.output_gradient[at];
        of_column[0] += dy;
        of_column[1] += dy * static_cast<double>(norm_of(args, column)(args.input[at]));
      },
      [&](std::int64_t column, auto const& of_column) {
        args.bias_gradient[column] = static_cast<float>(of_column[0]);
        args.weight_gradient[column] = static_cast<float>(of_column[1]);
        sums[column] = of_column[0];
        sums[args.width + column] = of_column[1];
      });
}

void compute_input_gradient(BatchNormGradientArgs const& args,
                            double const* sums,
                            std::int64_t ranks) {
  std::vector<std::array<float, kNormGradientSums>> means(static_cast<std::size_t>(args.width));
  for (std::int64_t column = 0; column < args.width; ++column) {
    double const rows = args.statistics[3 * args.width + column];
    for (std::int64_t k = 0; k < kNormGradientSums; ++k) {
      means[static_cast<std::size_t>(column)][static_cast<std::size_t>(k)] = static_cast<float>(
          sum_over_ranks(sums, ranks, kNormGradientSums, k, args.width, column) / rows);
    }
  }
  map_columns(args.rows, args.width, [&](std::int64_t row, std::int64_t column) {
    auto const at = row * args.width + column;
    auto const norm = norm_of(args, column);
    auto const& mean = means[static_cast<std::size_t>(column)];
    float const dy = args.output_gradient[at];
    args.input_gradient[at] =
        args.weight[column] * norm.reciprocal *
        (args.mask.counts(row) ? dy - mean[0] - norm(args.input[at]) * mean[1] : dy);
  });
}

}  // namespace

std::size_t batch_norm_gradient_workspace_bytes(HostStream /*stream*/,
                                                std::int64_t /*rows*/,
                                                std::int64_t width) {
  return static_cast<std::size_t>(kNormGradientSums * width) * sizeof(double);
}
void batch_norm_gradient(HostStream stream, BatchNormGradientArgs const& args) {
  stream.run([args] {
    auto* const sums = static_cast<double*>(args.workspace);
    sum_gradients(args, sums);
    if (args.input_gradient != nullptr) {
      compute_input_gradient(args, sums, 1);
    }
  });
}

void batch_norm_gradient_sums(HostStream stream, BatchNormGradientArgs const& args, double* sums) {
  stream.run([args, sums] { sum_gradients(args, sums); });
}
void batch_norm_input_gradient(HostStream stream,
                               BatchNormGradientArgs const& args,
                               double const* sums,
                               std::int64_t ranks) {
  stream.run([args, sums, ranks] { compute_input_gradient(args, sums, ranks); });
}

}  // namespace msstream::ops::kernels
