// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/long_sum.hpp"
#include "common/real_types.hpp"
#include "elementwise/layer_norm.hpp"
#include "elementwise/reduce_lanes.cuh"
#include "elementwise/reduce_math.hpp"
#include "elementwise/row_lanes.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

namespace {

// Layer normalization of short rows avoids exact divisions and roots, which take many instructions:
// the kernels multiply by 1 / width instead of dividing by the width, and take a reciprocal root
// from rsqrtf(), whose error is at most 2 units in the last place.

/// The least number of blocks that a multiprocessor holds at once, for rows that a block shares.
/// Long rows allow fewer blocks, because each of their sums has a float64 total, which needs
/// registers.
template <bool kIsLong>
inline constexpr int kBlocksOfRows = kIsLong ? 6 : 8;

/// The mean of a row. Deviations are taken from the row's first element first, so that a large mean
/// does not cost them digits (Chan, Golub, LeVeque: Algorithms for computing the sample variance,
/// 1983).
struct RowMean {
  float first;       ///< first element of the row
  float from_there;  ///< the mean minus the first element

  [[nodiscard]] __device__ float deviation_of(float x) const { return (x - first) - from_there; }
};

__device__ SplitFloat stored_mean(float const* means, float const* rests, std::int64_t row) {
  return {means[row], rests != nullptr ? rests[row] : 0.0F};
}

__device__ void store_moments(LayerNormArgs const& args,
                              std::int64_t row,
                              RowMean const& mean,
                              float reciprocal) {
  auto const split = SplitFloat::sum(mean.first, mean.from_there);
  args.means[row] = split.value;
  if (args.mean_rests != nullptr) {
    args.mean_rests[row] = split.rest;
  }
  args.reciprocals[row] = reciprocal;
}

template <class T, int PerLane>
__global__ void __launch_bounds__(kBlockThreads, kBlocksOfLanes<PerLane>)
    layer_norm_by_lanes_kernel(__grid_constant__ LayerNormArgs const args,
                               int log2_lanes,
                               float share_of_column) {
  RowOfLanes const place(log2_lanes);
  bool const exists = place.row < args.rows;
  std::int64_t const columns = exists ? args.width : 0;
  std::int64_t const first = place.row * args.width;
  auto const* const input = static_cast<T const*>(args.input) + first;
  auto* const output = static_cast<T*>(args.output) + first;
  float values[PerLane] = {};
  place.for_each<PerLane>(columns, [&](int k, int column) { values[k] = widen(input[column]); });
  RowMean mean{__shfl_sync(0xFFFFFFFFU, values[0], 0, place.lanes), 0.0F};
  float sum = 0.0F;
  place.for_each<PerLane>(columns, [&](int k, int) {
    values[k] -= mean.first;
    sum += values[k];
  });
  mean.from_there = reduce_lanes<Total>(sum, place.lanes) * share_of_column;
  float squares = 0.0F;
  place.for_each<PerLane>(columns, [&](int k, int) {
    values[k] -= mean.from_there;
    squares += values[k] * values[k];
  });
  squares = reduce_lanes<Total>(squares, place.lanes);
  float const reciprocal = rsqrtf(squares * share_of_column + args.epsilon);
  place.for_each<PerLane>(columns, [&](int k, int column) {
    output[column] = narrowed<T>(values[k] * reciprocal * args.weight[column] + args.bias[column]);
  });
  if (exists && place.lane == 0) {
    store_moments(args, place.row, mean, reciprocal);
  }
}

template <class T, bool kIsLong>
__global__ void __launch_bounds__(kBlockThreads, kBlocksOfRows<kIsLong>)
    layer_norm_by_blocks_kernel(__grid_constant__ LayerNormArgs const args) {
  std::int64_t const row = blockIdx.x;
  auto const* const input = static_cast<T const*>(args.input) + row * args.width;
  auto* const output = static_cast<T*>(args.output) + row * args.width;
  auto const width = static_cast<float>(args.width);
  RowMean mean{widen(input[0]), 0.0F};
  LongSum sum;
  for_each_of_block<kIsLong>(
      args.width,
      [&](std::int64_t column) { sum.add(widen(input[column]) - mean.first); },
      [&] { sum.fold(); });
  // If the output overwrites the input, the barriers of the reductions also keep the row unchanged
  // until all threads have read its first element.
  mean.from_there = reduce_block<Total>(sum.get()) / width;
  LongSum squares;
  for_each_of_block<kIsLong>(
      args.width,
      [&](std::int64_t column) {
        float const deviation = mean.deviation_of(widen(input[column]));
        squares.add(deviation * deviation);
      },
      [&] { squares.fold(); });
  float const variance = reduce_block<Total>(squares.get()) / width;
  float const reciprocal = 1.0F / std::sqrt(variance + args.epsilon);
  for_each_of_block(args.width, [&](std::int64_t column) {
    output[column] =
        narrowed<T>(mean.deviation_of(widen(input[column])) * reciprocal * args.weight[column] +
                    args.bias[column]);
  });
  if (threadIdx.x == 0) {
    store_moments(args, row, mean, reciprocal);
  }
}

template <class T, int PerLane>
__global__ void __launch_bounds__(kBlockThreads, kBlocksOfLanes<PerLane>)
    input_gradient_by_lanes_kernel(__grid_constant__ LayerNormInputGradientArgs const args,
                                   int log2_lanes,
                                   float share_of_column) {
  RowOfLanes const place(log2_lanes);
  bool const exists = place.row < args.rows;
  std::int64_t const columns = exists ? args.width : 0;
  std::int64_t const first = place.row * args.width;
  auto const* const input = static_cast<T const*>(args.input) + first;
  auto const* const output_gradient = static_cast<T const*>(args.output_gradient) + first;
  auto* const input_gradient = static_cast<T*>(args.input_gradient) + first;
  auto const mean =
      exists ? stored_mean(args.means, args.mean_rests, place.row) : SplitFloat{0.0F, 0.0F};
  float const reciprocal = exists ? args.reciprocals[place.row] : 0.0F;
  float normal[PerLane] = {};
  float scaled[PerLane] = {};
  float sum = 0.0F;
  float weighted = 0.0F;
  place.for_each<PerLane>(columns, [&](int k, int column) {
    normal[k] = mean.deviation_of(widen(input[column])) * reciprocal;
    scaled[k] = widen(output_gradient[column]) * args.weight[column];
    sum += scaled[k];
    weighted += scaled[k] * normal[k];
  });
  sum = reduce_lanes<Total>(sum, place.lanes) * share_of_column;
  weighted = reduce_lanes<Total>(weighted, place.lanes) * share_of_column;
  place.for_each<PerLane>(columns, [&](int k, int column) {
    input_gradient[column] = narrowed<T>(reciprocal * (scaled[k] - sum - normal[k] * weighted));
  });
}

template <class T, bool kIsLong>
__global__ void __launch_bounds__(kBlockThreads, kBlocksOfRows<kIsLong>)
    input_gradient_by_blocks_kernel(__grid_constant__ LayerNormInputGradientArgs const args) {
  std::int64_t const row = blockIdx.x;
  std::int64_t const first = row * args.width;
  auto const* const input = static_cast<T const*>(args.input) + first;
  auto const* const output_gradient = static_cast<T const*>(args.output_gradient) + first;
  auto* const input_gradient = static_cast<T*>(args.input_gradient) + first;
  auto const width = static_cast<float>(args.width);
  auto const mean = stored_mean(args.means, args.mean_rests, row);
  float const reciprocal = args.reciprocals[row];
  auto const normal_of = [&](std::int64_t column) {
    return mean.deviation_of(widen(input[column])) * reciprocal;
  };
  auto const scaled_of = [&](std::int64_t column) {
    return widen(output_gradient[column]) * args.weight[column];
  };
  LongSum scaled_sum;
  LongSum weighted_sum;
  for_each_of_block<kIsLong>(
      args.width,
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
  for_each_of_block(args.width, [&](std::int64_t column) {
    float const normal = normal_of(column);
    input_gradient[column] =
        narrowed<T>(reciprocal * (scaled_of(column) - sum - normal * weighted));
  });
}

constexpr int kTileColumns = 32;
constexpr int kTileRows = kBlockThreads / kTileColumns;

/// One pass of a layer norm's parameter gradients: over the rows in chunks, or over the sums of the
/// chunks.
///
///   each block takes columns [32 tile, 32 tile + 32) of a chunk
///   thread (c, r) adds rows r, r + 8, … of column c of the chunk
///   thread (c, 0) then adds the 8 sums of column c
struct ParameterPass {
  LayerNormParameterGradientArgs args;
  float const* partials;  ///< [rows, 2, width]; null if terms are computed from `args`
  std::int64_t rows;
  std::int64_t tiles;
  std::int64_t chunk_length;
  std::int64_t chunk_stride;  ///< floats from one chunk's sums to the next one's
  float* weights;             ///< sums of the first chunk, for the gradient of the weight
  float* biases;
};

/// Adds the terms of the gradients of a layer norm's weight and bias. `kIsLong` is for threads that
/// have more than kTermsOfPart rows of a chunk.
template <class T, bool kIsLong>
__global__ void __launch_bounds__(kBlockThreads, kIsLong ? 6 : 8)
    parameter_gradient_kernel(__grid_constant__ ParameterPass const pass) {
  __shared__ float weights[kTileRows][kTileColumns];
  __shared__ float biases[kTileRows][kTileColumns];
  auto const& args = pass.args;
  auto const* const input = static_cast<T const*>(args.input);
  auto const* const output_gradient = static_cast<T const*>(args.output_gradient);
  std::int64_t const width = args.width;
  std::int64_t const chunk = blockIdx.x / pass.tiles;
  std::int64_t const column = (blockIdx.x - chunk * pass.tiles) * kTileColumns + threadIdx.x;
  std::int64_t const last = min((chunk + 1) * pass.chunk_length, pass.rows);
  LongSum weight_sum;
  LongSum bias_sum;
  auto row = chunk * pass.chunk_length + threadIdx.y;
  auto const add_until = [&](std::int64_t end) {
#pragma unroll 4
    for (; row < end; row += kTileRows) {
      if (pass.partials != nullptr) {
        weight_sum.add(pass.partials[2 * row * width + column]);
        bias_sum.add(pass.partials[(2 * row + 1) * width + column]);
      } else {
        float const gradient = widen(output_gradient[row * width + column]);
        float const deviation = stored_mean(args.means, args.mean_rests, row)
                                    .deviation_of(widen(input[row * width + column]));
        weight_sum.add(gradient * (deviation * args.reciprocals[row]));
        bias_sum.add(gradient);
      }
    }
  };
  if (column < width) {
    if constexpr (kIsLong) {
      while (row < last) {
        add_until(min(row + kTermsOfPart * kTileRows, last));
        weight_sum.fold();
        bias_sum.fold();
      }
    } else {
      add_until(last);
    }
  }
  float weight = weight_sum.get();
  float bias = bias_sum.get();
  weights[threadIdx.y][threadIdx.x] = weight;
  biases[threadIdx.y][threadIdx.x] = bias;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) {
    return;
  }
  for (int other = 1; other < kTileRows; ++other) {
    weight += weights[other][threadIdx.x];
    bias += biases[other][threadIdx.x];
  }
  pass.weights[chunk * pass.chunk_stride + column] = weight;
  pass.biases[chunk * pass.chunk_stride + column] = bias;
}

/// Returns the number of rows per chunk: about 64 or more, so that there are about 1024 blocks, and
/// enough that the second pass, over at most 256 chunks, is short.
std::int64_t rows_a_chunk(std::int64_t rows, std::int64_t tiles) {
  constexpr std::int64_t kEnoughBlocks = 1024;
  constexpr std::int64_t kLeastRows = 64;
  constexpr std::int64_t kMostChunks = 256;
  auto const wanted =
      std::min({ceil_div(kEnoughBlocks, tiles), ceil_div(rows, kLeastRows), kMostChunks});
  return std::max<std::int64_t>(ceil_div(rows, std::max<std::int64_t>(wanted, 1)), 1);
}
std::int64_t chunks_of(std::int64_t rows, std::int64_t tiles) {
  return std::max<std::int64_t>(ceil_div(rows, rows_a_chunk(rows, tiles)), 1);
}

/// Calls launch(type, per_lane, log2_lanes, blocks) for rows that the lanes of a warp share, and
/// by_block(type, is_long) for longer ones, with the type of the elements as std::type_identity and
/// the other types as std::integral_constant.
template <class ByLanes, class ByBlock>
void for_rows(char const* what,
              DType dtype,
              std::int64_t rows,
              std::int64_t width,
              ByLanes const& by_lanes,
              ByBlock const& by_block) {
  if (rows == 0) {
    return;
  }
  with_real_type(what, dtype, [&](auto type) {
    if (width <= kLongestRowOfLanes) {
      with_row_lanes(rows, width, [&](auto per_lane, int log2_lanes, unsigned blocks) {
        by_lanes(type, per_lane, log2_lanes, blocks);
      });
    } else if (is_one_part_of_block(width)) {
      by_block(type, std::false_type{});
    } else {
      by_block(type, std::true_type{});
    }
  });
  check_launch(what);
}

}  // namespace

void layer_norm(CudaStream stream, LayerNormArgs const& args) {
  for_rows(
      "layer_norm",
      args.dtype,
      args.rows,
      args.width,
      [&](auto type, auto per_lane, int log2_lanes, unsigned blocks) {
        layer_norm_by_lanes_kernel<typename decltype(type)::type, decltype(per_lane)::value>
            <<<blocks, kBlockThreads, 0, stream.handle>>>(
                args, log2_lanes, 1.0F / static_cast<float>(args.width));
      },
      [&](auto type, auto is_long) {
        layer_norm_by_blocks_kernel<typename decltype(type)::type, decltype(is_long)::value>
            <<<grid_for(args.rows, 1), kBlockThreads, 0, stream.handle>>>(args);
      });
}

void layer_norm_input_gradient(CudaStream stream, LayerNormInputGradientArgs const& args) {
  for_rows(
      "layer_norm_input_gradient",
      args.dtype,
      args.rows,
      args.width,
      [&](auto type, auto per_lane, int log2_lanes, unsigned blocks) {
        input_gradient_by_lanes_kernel<typename decltype(type)::type, decltype(per_lane)::value>
            <<<blocks, kBlockThreads, 0, stream.handle>>>(
                args, log2_lanes, 1.0F / static_cast<float>(args.width));
      },
      [&](auto type, auto is_long) {
        input_gradient_by_blocks_kernel<typename decltype(type)::type, decltype(is_long)::value>
            <<<grid_for(args.rows, 1), kBlockThreads, 0, stream.handle>>>(args);
      });
}

std::size_t layer_norm_workspace_bytes(CudaStream, std::int64_t rows, std::int64_t width) {
  auto const chunks = chunks_of(rows, ceil_div<std::int64_t>(width, kTileColumns));
  return chunks == 1 ? 0 : static_cast<std::size_t>(chunks * 2 * width) * sizeof(float);
}

void layer_norm_parameter_gradient(CudaStream stream, LayerNormParameterGradientArgs const& args) {
  auto const tiles = ceil_div<std::int64_t>(args.width, kTileColumns);
  auto const launch = [&](ParameterPass const& pass, std::int64_t chunks) {
    bool const is_long = pass.chunk_length > kTermsOfPart * kTileRows;
    with_real_type("layer_norm_parameter_gradient", args.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      auto* const kernel =
          is_long ? parameter_gradient_kernel<T, true> : parameter_gradient_kernel<T, false>;
      kernel<<<grid_for(tiles * chunks, 1), dim3(kTileColumns, kTileRows), 0, stream.handle>>>(
          pass);
    });
    check_launch("layer_norm_parameter_gradient");
  };
  auto const chunks = chunks_of(args.rows, tiles);
  auto const length = rows_a_chunk(args.rows, tiles);
  if (chunks == 1) {
    launch({args, nullptr, args.rows, tiles, length, 0, args.weight_gradient, args.bias_gradient},
           1);
    return;
  }
  auto* const partials = static_cast<float*>(args.workspace);
  auto const stride = 2 * args.width;
  launch({args, nullptr, args.rows, tiles, length, stride, partials, partials + args.width},
         chunks);
  launch({args, partials, chunks, tiles, chunks, 0, args.weight_gradient, args.bias_gradient}, 1);
}

}  // namespace msstream::ops::kernels
