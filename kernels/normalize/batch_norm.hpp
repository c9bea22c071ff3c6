// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Says which rows count in the statistics of a batch: those whose mark is not 0. Null: all.
struct RowMask {
  float const* marks = nullptr;  ///< one for each run of `rows_a_mark` consecutive rows
  std::int64_t rows_a_mark = 1;

  [[nodiscard]] MSSTREAM_HOST_DEVICE bool counts(std::int64_t row) const {
    return marks == nullptr || marks[rows_a_mark == 1 ? row : row / rows_a_mark] != 0.0F;
  }
};

/// Computes the mean and the variance of each column, in float64, and updates running statistics:
/// running = (1 - momentum) * running + momentum * (the batch's), with the variance of the batch
/// divided by rows - 1, if there is more than one row. Only rows that the mask counts are rows.
/// Without any, the running statistics do not change, the means are 0 and the reciprocals 1.
struct ColumnStatisticsArgs {
  float const* input;  ///< [rows, width]
  std::int64_t rows;
  std::int64_t width;
  float epsilon;
  float momentum;
  /// [4, width]: the means, their rounding errors, 1 / sqrt(variance + epsilon), for the variance
  /// divided by rows, and the number of rows.
  float* statistics;
  float* running_mean;      ///< [width]
  float* running_variance;  ///< [width]
  void* workspace;          ///< column_statistics_workspace_bytes(), aligned to 8 bytes
  RowMask mask = {};
};
std::size_t column_statistics_workspace_bytes(HostStream stream,
                                              std::int64_t rows,
                                              std::int64_t width);
std::size_t column_statistics_workspace_bytes(CudaStream stream,
                                              std::int64_t rows,
                                              std::int64_t width);
void column_statistics(HostStream stream, ColumnStatisticsArgs const& args);
void column_statistics(CudaStream stream, ColumnStatisticsArgs const& args);

/// The halves of column_statistics(), for rows that are on several ranks. column_sums() writes
/// those of the rows of a rank, [kColumnSums, width]: an element of a row that counts, or 0, the
/// sums of the deviations from it and of their squares, and the number of rows. finish_columns()
/// takes the sums of all ranks, [ranks, kColumnSums, width], and needs neither input nor workspace.
inline constexpr int kColumnSums = 4;
void column_sums(HostStream stream, ColumnStatisticsArgs const& args, double* sums);
void column_sums(CudaStream stream, ColumnStatisticsArgs const& args, double* sums);
void finish_columns(HostStream stream,
                    ColumnStatisticsArgs const& args,
                    double const* sums,
                    std::int64_t ranks);
void finish_columns(CudaStream stream,
                    ColumnStatisticsArgs const& args,
                    double const* sums,
                    std::int64_t ranks);

/// The statistics by which columns are normalised: those of a batch, or running ones if
/// `statistics` is null.
struct ColumnMoments {
  float const* statistics;  ///< [4, width], as in ColumnStatisticsArgs
  float const* running_mean;
  float const* running_variance;
  float epsilon;  ///< used with running statistics
};

/// Computes output[r, c] = n * weight[c] + bias[c], for the normalised n = (x - mean) * reciprocal.
struct BatchNormArgs {
  float const* input;   ///< [rows, width]
  float const* weight;  ///< [width]
  float const* bias;    ///< [width]
  ColumnMoments moments;
  float* output;  ///< [rows, width]
  std::int64_t rows;
  std::int64_t width;
};
void batch_norm(HostStream stream, BatchNormArgs const& args);
void batch_norm(CudaStream stream, BatchNormArgs const& args);

/// Computes the gradients of batch_norm() by the statistics of the batch: bias_gradient = sum of
/// dy, weight_gradient = sum of dy * n, and dx = weight * reciprocal * (dy - (bias_gradient + n *
/// weight_gradient) / rows), where only rows that count have the second term.
struct BatchNormGradientArgs {
  float const* input;
  float const* weight;
  float const* statistics;
  float const* output_gradient;
  std::int64_t rows;
  std::int64_t width;
  void* workspace;        ///< batch_norm_gradient_workspace_bytes(), aligned to 8 bytes
  float* input_gradient;  ///< null if not wanted
  float* weight_gradient;
  float* bias_gradient;
  RowMask mask = {};
};
std::size_t batch_norm_gradient_workspace_bytes(HostStream stream,
                                                std::int64_t rows,
                                                std::int64_t width);
std::size_t batch_norm_gradient_workspace_bytes(CudaStream stream,
                                                std::int64_t rows,
                                                std::int64_t width);
void batch_norm_gradient(HostStream stream, BatchNormGradientArgs const& args);
void batch_norm_gradient(CudaStream stream, BatchNormGradientArgs const& args);

/// The halves of batch_norm_gradient(), for rows that are on several ranks.
/// batch_norm_gradient_sums() computes the gradients of weight and bias over the rows of a rank,
/// and writes their sums, [kNormGradientSums, width]: of dy and of dy * n.
/// batch_norm_input_gradient() takes the sums of all ranks, [ranks, kNormGradientSums, width], and
/// needs no workspace.
inline constexpr std::int64_t kNormGradientSums = 2;
void batch_norm_gradient_sums(HostStream stream, BatchNormGradientArgs const& args, double* sums);
void batch_norm_gradient_sums(CudaStream stream, BatchNormGradientArgs const& args, double* sums);
void batch_norm_input_gradient(HostStream stream,
                               BatchNormGradientArgs const& args,
                               double const* sums,
                               std::int64_t ranks);
void batch_norm_input_gradient(CudaStream stream,
                               BatchNormGradientArgs const& args,
                               double const* sums,
                               std::int64_t ranks);

}  // namespace msstream::ops::kernels
