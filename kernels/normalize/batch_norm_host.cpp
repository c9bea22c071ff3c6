// SPDX-License-Identifier: Apache-2.0
#include "normalize/batch_norm.hpp"
#include "normalize/batch_norm_math.hpp"
#include "normalize/column_sums_host.hpp"

namespace msstream::ops::kernels {

std::size_t column_statistics_workspace_bytes(HostStream /*stream*/,
                                              std::int64_t /*rows*/,
                                              std::int64_t /*width*/) {
  return 0;
}
void column_statistics(HostStream stream, ColumnStatisticsArgs const& args) {
  stream.run([args] {
    sum_columns<3>(
        args.rows,
        args.width,
        [&](std::int64_t row, std::int64_t column, auto& sums) {
          if (args.mask.counts(row)) {
            double const deviation =
                static_cast<double>(args.input[row * args.width + column]) - pivot_of(args, column);
            sums[0] += deviation;
            sums[1] += deviation * deviation;
            sums[2] += 1.0;
          }
        },
        [&](std::int64_t column, auto const& sums) {
          finish_statistics(args, column, sums[0], sums[1], sums[2]);
        });
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

std::size_t batch_norm_gradient_workspace_bytes(HostStream /*stream*/,
                                                std::int64_t /*rows*/,
                                                std::int64_t /*width*/) {
  return 0;
}
void batch_norm_gradient(HostStream stream, BatchNormGradientArgs const& args) {
  stream.run([args] {
    auto const norm_of = [&](std::int64_t column) {
      return ColumnNorm({args.statistics, nullptr, nullptr, 0.0F}, args.width, column);
    };
    sum_columns<2>(
        args.rows,
        args.width,
        [&](std::int64_t row, std::int64_t column, auto& sums) {
          auto const at = row * args.width + column;
          double const dy = args.output_gradient[at];
          sums[0] += dy;
          sums[1] += dy * static_cast<double>(norm_of(column)(args.input[at]));
        },
        [&](std::int64_t column, auto const& sums) {
          args.bias_gradient[column] = static_cast<float>(sums[0]);
          args.weight_gradient[column] = static_cast<float>(sums[1]);
        });
    if (args.input_gradient == nullptr) {
      return;
    }
    map_columns(args.rows, args.width, [&](std::int64_t row, std::int64_t column) {
      auto const at = row * args.width + column;
      auto const norm = norm_of(column);
      float const rows = args.statistics[3 * args.width + column];
      float const dy = args.output_gradient[at];
      args.input_gradient[at] =
          args.weight[column] * norm.reciprocal *
          (args.mask.counts(row) ? dy - args.bias_gradient[column] / rows -
                                       norm(args.input[at]) * (args.weight_gradient[column] / rows)
                                 : dy);
    });
  });
}

}  // namespace msstream::ops::kernels
