// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"
#include "common/long_sum.hpp"
#include "elementwise/long_rows.cuh"
#include "elementwise/reduce_lanes.cuh"
#include "elementwise/reduce_math.hpp"
#include "normalize/layer_norm_pass.cuh"

#include <cstdint>

/// The gradients of a layer norm of rows that are too long for registers: one kernel for the input,
/// and one for weight and bias.
namespace msstream::ops::kernels {

/// Computes the gradient of the input. A block has one row, and reads it twice.
template <class T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksOfLongRows)
    input_gradient_of_long_rows_kernel(__grid_constant__ GradientPass const pass) {
  std::int64_t const row = blockIdx.x;
  std::int64_t const first = row * pass.width;
  auto const* const input = static_cast<T const*>(pass.input) + first;
  auto const* const output_gradient = static_cast<T const*>(pass.output_gradient) + first;
  auto* const input_gradient = static_cast<T*>(pass.input_gradient) + first;
  auto const width = static_cast<float>(pass.width);
  auto const mean = pass.mean_of(row);
  float const reciprocal = pass.reciprocals[row];
  auto const normal_of = [&](std::int64_t column) {
    return mean.deviation_of(widen(input[column])) * reciprocal;
  };
  auto const scaled_of = [&](std::int64_t column) {
    return widen(output_gradient[column]) * pass.weight[column];
  };
  LongSum scaled_sum;
  LongSum weighted_sum;
  for_each_of_block(
      pass.width,
      [&](std::int64_t column) {
        float const scaled = scaled_of(column);
        scaled_sum.add(scaled);
        weighted_sum.add(scaled * normal_of(column));
      },
      [&] {
        scaled_sum.fold();
        weighted_sum.fold();
      });
  float const sum = reduce_block<Total>(scaled_sum.get()) / width;
  float const weighted = reduce_block<Total>(weighted_sum.get()) / width;
  for_each_of_block(pass.width, [&](std::int64_t column) {
    float const normal = normal_of(column);
    input_gradient[column] =
        narrowed<T>(reciprocal * (scaled_of(column) - sum - normal * weighted));
  });
}

inline constexpr int kTileColumns = 32;
inline constexpr int kTileRows = kBlockThreads / kTileColumns;

/// Adds the gradients of weight and bias over chunks of rows:
///
///   each block takes columns [32 tile, 32 tile + 32) of a chunk
///   thread (c, r) adds rows r, r + 8, … of column c of the chunk
///   thread (c, 0) then adds the 8 sums of column c
template <class T>
__global__ void __launch_bounds__(kBlockThreads, kBlocksOfLongRows)
    parameter_sums_of_long_rows_kernel(__grid_constant__ GradientPass const pass) {
  __shared__ float weights[kTileRows][kTileColumns];
  __shared__ float biases[kTileRows][kTileColumns];
  auto const* const input = static_cast<T const*>(pass.input);
  auto const* const output_gradient = static_cast<T const*>(pass.output_gradient);
  std::int64_t const tiles = ceil_div<std::int64_t>(pass.width, kTileColumns);
  std::int64_t const chunk = blockIdx.x / tiles;
  std::int64_t const column = (blockIdx.x - chunk * tiles) * kTileColumns + threadIdx.x;
  std::int64_t const last = min((chunk + 1) * pass.chunk_length, pass.rows);
  LongSum weight_sum;
  LongSum bias_sum;
  auto row = chunk * pass.chunk_length + threadIdx.y;
  while (column < pass.width && row < last) {
    auto const end_of_part = min(row + kTermsOfPart * kTileRows, last);
#pragma unroll 4
    for (; row < end_of_part; row += kTileRows) {
      float const gradient = widen(output_gradient[row * pass.width + column]);
      float const deviation =
          pass.mean_of(row).deviation_of(widen(input[row * pass.width + column]));
      weight_sum.add(gradient * (deviation * pass.reciprocals[row]));
      bias_sum.add(gradient);
    }
    weight_sum.fold();
    bias_sum.fold();
  }
  float weight = weight_sum.get();
  float bias = bias_sum.get();
  weights[threadIdx.y][threadIdx.x] = weight;
  biases[threadIdx.y][threadIdx.x] = bias;
  __syncthreads();
  if (threadIdx.y != 0 || column >= pass.width) {
    return;
  }
  for (int other = 1; other < kTileRows; ++other) {
    weight += weights[other][threadIdx.x];
    bias += biases[other][threadIdx.x];
  }
  pass.weight_sums[chunk * pass.sums_stride + column] = weight;
  pass.bias_sums[chunk * pass.sums_stride + column] = bias;
}

/// Launches the kernels for the gradients that are wanted.
template <class T>
void launch_long_rows(CudaStream stream, GradientPass const& pass, std::int64_t chunks) {
  if (pass.input_gradient != nullptr && pass.rows > 0) {
    input_gradient_of_long_rows_kernel<T>
        <<<grid_for(pass.rows, 1), kBlockThreads, 0, stream.handle>>>(pass);
    if (pass.weight_sums != nullptr) {
      check_launch("layer_norm_gradient");  // the caller checks the last launch
    }
  }
  if (pass.weight_sums != nullptr) {
    auto const tiles = ceil_div<std::int64_t>(pass.width, kTileColumns);
    parameter_sums_of_long_rows_kernel<T>
        <<<grid_for(tiles * chunks, 1), dim3(kTileColumns, kTileRows), 0, stream.handle>>>(pass);
  }
}

}  // namespace msstream::ops::kernels
