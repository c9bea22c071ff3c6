// SPDX-License-Identifier: Apache-2.0
#include "normalize/batch_norm.hpp"
#include "normalize/batch_norm_math.hpp"
#include "normalize/column_tiles.cuh"

namespace msstream::ops::kernels {

namespace {

/// The sums of add_element(). Each thread has a pivot of its own, so that none searches the rows of
/// others for one that counts.
struct DeviationTerms {
  static constexpr int kInputs = 1;
  ColumnStatisticsArgs args;

  struct OfColumn {
    __device__ void add(bool counts, float const (&x)[1], double (&sums)[kColumnSums]) const {
      if (counts) {
        add_element(sums, x[0]);
      }
    }
  };
  [[nodiscard]] __host__ __device__ float const* input(int) const { return args.input; }
  [[nodiscard]] __device__ RowMask mask() const { return args.mask; }
  [[nodiscard]] __device__ OfColumn of_column(std::int64_t) const { return {}; }
  static __device__ void add_sums(double (&sums)[kColumnSums],
                                  double const (&others)[kColumnSums]) {
    add_elements(sums, others);
  }
};
struct FinishStatistics {
  ColumnStatisticsArgs args;
  __device__ void operator()(std::int64_t column, double const (&sums)[kColumnSums]) const {
    finish_statistics(args, column, sums);
  }
};

struct StoreColumnSums {
  ColumnStatisticsArgs args;
  double* sums;  ///< [kColumnSums, width]
  __device__ void operator()(std::int64_t column, double const (&of_column)[kColumnSums]) const {
    for (int k = 0; k < kColumnSums; ++k) {
      sums[k * args.width + column] = of_column[k];
    }
  }
};
__global__ void __launch_bounds__(kBlockThreads)
    finish_columns_kernel(__grid_constant__ ColumnStatisticsArgs const args,
                          double const* sums,
                          std::int64_t ranks) {
  if (auto const column = grid_thread(); column < args.width) {
    finish_statistics_of_ranks(args, column, sums, ranks);
  }
}

struct NormFunction {
  static constexpr int kInputs = 1;
  BatchNormArgs args;

  struct OfColumn {
    ColumnNorm norm;
    float weight;
    float bias;
    [[nodiscard]] __device__ float element(bool, float const (&x)[1]) const {
      return norm(x[0]) * weight + bias;
    }
  };
  [[nodiscard]] __host__ __device__ float const* input(int) const { return args.input; }
  [[nodiscard]] __host__ __device__ float* output() const { return args.output; }
  [[nodiscard]] __device__ RowMask mask() const { return {}; }
  [[nodiscard]] __device__ OfColumn of_column(std::int64_t column) const {
    return {ColumnNorm(args.moments, args.width, column), args.weight[column], args.bias[column]};
  }
};

/// The input of a batch normalisation and the gradient of its output, of which the kernels of the
/// gradients are functions.
struct NormGradientInputs {
  static constexpr int kInputs = 2;
  BatchNormGradientArgs args;

  [[nodiscard]] __host__ __device__ float const* input(int i) const {
    return i == 0 ? args.input : args.output_gradient;
  }
  [[nodiscard]] __device__ ColumnNorm norm_of(std::int64_t column) const {
    return {{args.statistics, nullptr, nullptr, 0.0F}, args.width, column};
  }
};
struct NormGradientTerms : NormGradientInputs {
  struct OfColumn {
    ColumnNorm norm;
    __device__ void add(bool, float const (&x)[2], double (&sums)[2]) const {
      double const dy = x[1];
      sums[0] += dy;
      sums[1] += dy * static_cast<double>(norm(x[0]));
    }
  };
  [[nodiscard]] __device__ RowMask mask() const { return {}; }
  [[nodiscard]] __device__ OfColumn of_column(std::int64_t column) const {
    return {norm_of(column)};
  }
};
struct FinishNormGradient {
  BatchNormGradientArgs args;
  double* sums;  ///< [kNormGradientSums, width]
  __device__ void operator()(std::int64_t column, double const (&of_column)[2]) const {
    args.bias_gradient[column] = static_cast<float>(of_column[0]);
    args.weight_gradient[column] = static_cast<float>(of_column[1]);
    sums[column] = of_column[0];
    sums[args.width + column] = of_column[1];
  }
};
struct NormInputGradient : NormGradientInputs {
  double const* sums;  ///< [ranks, kNormGradientSums, width]
  std::int64_t ranks;

  struct OfColumn {
    ColumnNorm norm;
    float factor;
    float mean_bias;
    float mean_weight;
    [[nodiscard]] __device__ float element(bool counts, float const (&x)[2]) const {
      return factor * (counts ? x[1] - mean_bias - norm(x[0]) * mean_weight : x[1]);
    }
  };
  [[nodiscard]] __host__ __device__ float* output() const { return args.input_gradient; }
  [[nodiscard]] __device__ RowMask mask() const { return args.mask; }
  [[nodiscard]] __device__ OfColumn of_column(std::int64_t column) const {
    auto const norm = norm_of(column);
    double const rows = args.statistics[3 * args.width + column];
    auto const mean = [&](std::int64_t k) {
      return static_cast<float>(
          sum_over_ranks(sums, ranks, kNormGradientSums, k, args.width, column) / rows);
    };
    return {norm, args.weight[column] * norm.reciprocal, mean(0), mean(1)};
  }
};

}  // namespace

std::size_t column_statistics_workspace_bytes(CudaStream /*stream*/,
                                              std::int64_t rows,
                                              std::int64_t width) {
  return column_sums_workspace_bytes(kColumnSums, rows, width);
}
void column_statistics(CudaStream stream, ColumnStatisticsArgs const& args) {
  sum_columns<kColumnSums>(stream,
                           "column_statistics",
                           args.rows,
                           args.width,
                           args.workspace,
                           DeviationTerms{args},
                           FinishStatistics{args});
}

void column_sums(CudaStream stream, ColumnStatisticsArgs const& args, double* sums) {
  sum_columns<kColumnSums>(stream,
                           "column_sums",
                           args.rows,
                           args.width,
                           args.workspace,
                           DeviationTerms{args},
                           StoreColumnSums{args, sums});
}
void finish_columns(CudaStream stream,
                    ColumnStatisticsArgs const& args,
                    double const* sums,
                    std::int64_t ranks) {
  if (args.width > 0) {
    finish_columns_kernel<<<grid_for(args.width, kBlockThreads), kBlockThreads, 0, stream>>>(
        args, sums, ranks);
    check_launch("finish_columns");
  }
}

void batch_norm(CudaStream stream, BatchNormArgs const& args) {
  map_columns(stream, "batch_norm", args.rows, args.width, NormFunction{args});
}

std::size_t batch_norm_gradient_workspace_bytes(CudaStream /*stream*/,
                                                std::int64_t rows,
                                                std::int64_t width) {
  return static_cast<std::size_t>(kNormGradientSums * width) * sizeof(double) +
         column_sums_workspace_bytes(2, rows, width);
}
void batch_norm_gradient(CudaStream stream, BatchNormGradientArgs const& args) {
  auto* const sums = static_cast<double*>(args.workspace);
  auto of_sums = args;
  of_sums.workspace = sums + kNormGradientSums * args.width;
  batch_norm_gradient_sums(stream, of_sums, sums);
  if (args.input_gradient != nullptr) {
    batch_norm_input_gradient(stream, args, sums, 1);
  }
}

void batch_norm_gradient_sums(CudaStream stream, BatchNormGradientArgs const& args, double* sums) {
  sum_columns<2>(stream,
                 "batch_norm_gradient",
                 args.rows,
                 args.width,
                 args.workspace,
                 NormGradientTerms{{args}},
                 FinishNormGradient{args, sums});
}
void batch_norm_input_gradient(CudaStream stream,
                               BatchNormGradientArgs const& args,
                               double const* sums,
                               std::int64_t ranks) {
  map_columns(
      stream, "batch_norm_gradient", args.rows, args.width, NormInputGradient{{args}, sums, ranks});
}

}  // namespace msstream::ops::kernels
