// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/long_sum.hpp"
#include "common/real_types.hpp"
#include "dense/column_sums.hpp"

#include <algorithm>

namespace msstream::ops::kernels {

namespace {

constexpr int kTileColumns = 32;
constexpr int kTileRows = 32;

/// One pass over a matrix in chunks of rows, which writes one row of column sums per chunk.
///
///   block (x, y, z) sums columns [32 x, 32 x + 32) of chunk y of layer z
///   thread (c, r) adds rows r, r + 32, … of column c of the chunk
///   thread (c, 0) then adds the 32 sums of column c
struct Pass {
  ColumnSums args;              ///< `sums` and `weight_sum` point to the results of the first chunk
  std::int64_t matrix_columns;  ///< columns of `matrix`; columns beyond them are read as ones
  std::int64_t columns_out;     ///< columns of `sums`, plus one if `weight_sum` is requested
  std::int64_t rows_a_chunk;
  std::int64_t chunk_stride;  ///< floats from one chunk's sums to the next one's
  std::int64_t layer_stride;  ///< floats from one layer's sums to the next one's
  std::int64_t layer_stride_of_weight_sums;
};

template <class T>
__global__ void __launch_bounds__(kTileColumns* kTileRows) column_sums_kernel(Pass const pass) {
  __shared__ float tile[kTileRows][kTileColumns];
  auto const& args = pass.args;
  std::int64_t const column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  std::int64_t const chunk = blockIdx.y;
  std::int64_t const layer = blockIdx.z;
  std::int64_t const first = chunk * pass.rows_a_chunk;
  std::int64_t const last = min(first + pass.rows_a_chunk, args.rows);
  auto const* const matrix = static_cast<T const*>(args.matrix) +
                             (args.shared_matrix ? 0 : layer * args.rows * pass.matrix_columns);
  auto const* const weights =
      args.weights != nullptr ? static_cast<T const*>(args.weights) + layer * args.rows : nullptr;
  LongSum sum;
  auto row = first + threadIdx.y;
  while (column < pass.columns_out && row < last) {
    auto const end_of_part = min(row + kTermsOfPart * kTileRows, last);
#pragma unroll 8
    for (; row < end_of_part; row += kTileRows) {
      float const value =
          column < pass.matrix_columns ? widen(matrix[row * pass.matrix_columns + column]) : 1.0F;
      sum.add(weights != nullptr ? widen(weights[row]) * value : value);
    }
    sum.fold();
  }
  tile[threadIdx.y][threadIdx.x] = sum.get();
  __syncthreads();
  if (threadIdx.y != 0 || column >= pass.columns_out) {
    return;
  }
  float total = 0.0F;
  for (int other = 0; other < kTileRows; ++other) {
    total += tile[other][threadIdx.x];
  }
  float* const to = column < args.columns
                        ? args.sums + layer * pass.layer_stride + column
                        : args.weight_sum + layer * pass.layer_stride_of_weight_sums;
  to[chunk * pass.chunk_stride] = total;
}

void launch(CudaStream stream, Pass const& pass) {
  dim3 const grid(grid_for(pass.columns_out, kTileColumns),
                  grid_for(pass.args.rows, pass.rows_a_chunk),
                  static_cast<unsigned>(pass.args.layers));
  with_real_type("column_sums: a matrix", pass.args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    column_sums_kernel<T><<<grid, dim3(kTileColumns, kTileRows), 0, stream.handle>>>(pass);
  });
  check_launch("column_sums");
}

}  // namespace

void column_sums(CudaStream stream, ColumnSums const& args) {
  // The number of chunks is limited, so that the pass that adds their sums is short.
  constexpr std::int64_t kMostChunks = 256;
  auto const columns_out = args.columns + (args.weight_sum != nullptr ? 1 : 0);
  if (columns_out == 0 || args.layers == 0) {
    return;
  }
  auto const row_bytes = args.layers * columns_out * static_cast<std::int64_t>(sizeof(float));
  auto const chunks_held = static_cast<std::int64_t>(stream.libraries->workspace_bytes) / row_bytes;
  auto const wanted = std::min({ceil_div(args.rows, kRowsOfOnePass), kMostChunks, chunks_held});
  auto const rows_a_chunk = ceil_div(args.rows, std::max<std::int64_t>(wanted, 1));
  auto const chunks = ceil_div(args.rows, rows_a_chunk);
  if (chunks == 1) {
    launch(stream, {args, args.columns, columns_out, rows_a_chunk, 0, args.columns, 1});
    return;
  }
  // The partial sums are an array [layers, chunks, columns_out] in the workspace.
  auto* const partials = static_cast<float*>(stream.libraries->workspace);
  ColumnSums first = args;
  first.sums = partials;
  first.weight_sum = partials + args.columns;
  auto const layer_stride = chunks * columns_out;
  launch(stream,
         {first, args.columns, columns_out, rows_a_chunk, columns_out, layer_stride, layer_stride});
  ColumnSums second = args;
  second.matrix = partials;
  second.dtype = DType::float32;
  second.shared_matrix = false;
  second.weights = nullptr;
  second.rows = chunks;
  launch(stream, {second, columns_out, columns_out, chunks, 0, args.columns, 1});
}

}  // namespace msstream::ops::kernels
