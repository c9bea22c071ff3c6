// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/vector_map.cuh"

#include <msstream/runtime/stream_ref.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// Kernels that walk down the columns of a matrix: each thread has one column of a chunk of rows,
/// and keeps the numbers that belong to its column in registers.
///
///   block: columns [32 tile, 32 tile + 32) of a chunk of rows
///   thread (c, r): rows r, r + 8, … of the chunk, column c of the tile
///
/// Sums are added in float64, in an order that the sizes decide: each thread its rows, then the 8
/// threads of a column, then the chunks.
namespace msstream::ops::kernels {

inline constexpr int kColumnsOfTile = 32;
inline constexpr int kRowsOfTile = kBlockThreads / kColumnsOfTile;

/// The division of a matrix into chunks of rows and tiles of columns.
struct ColumnTiles {
  std::int64_t rows;
  std::int64_t width;
  std::int64_t tiles;
  std::int64_t chunk_rows;
  std::int64_t chunks;  ///< at least 1

  /// Divides the rows into chunks of `least_rows` or more, enough for about 1024 blocks, and at
  /// most `most_chunks`.
  ColumnTiles(std::int64_t all_rows,
              std::int64_t all_columns,
              std::int64_t least_rows,
              std::int64_t most_chunks)
      : rows(all_rows), width(all_columns), tiles(ceil_div<std::int64_t>(width, kColumnsOfTile)) {
    constexpr std::int64_t kEnoughBlocks = 1024;
    auto const wanted =
        std::max<std::int64_t>(std::min({ceil_div(kEnoughBlocks, std::max<std::int64_t>(tiles, 1)),
                                         ceil_div(rows, least_rows),
                                         most_chunks}),
                               1);
    chunk_rows = std::max<std::int64_t>(ceil_div(rows, wanted), 1);
    chunks = std::max<std::int64_t>(ceil_div(rows, chunk_rows), 1);
  }

  [[nodiscard]] unsigned blocks() const { return grid_for(tiles * chunks, 1); }
};
/// Returns the division for sums of columns, whose chunks a second pass adds up.
inline ColumnTiles tiles_of_sums(std::int64_t rows, std::int64_t width) {
  return {rows, width, 64, 256};
}
/// Returns the division for functions of each element.
inline ColumnTiles tiles_of_map(std::int64_t rows, std::int64_t width) {
  return {rows, width, 32, std::int64_t{1} << 40U};
}

/// The rows and the column of the calling thread.
struct ColumnPlace {
  std::int64_t chunk;
  std::int64_t column;
  std::int64_t row;
  std::int64_t end;

  explicit __device__ ColumnPlace(ColumnTiles const& tiles)
      : chunk(blockIdx.x / tiles.tiles),
        column((blockIdx.x - chunk * tiles.tiles) * kColumnsOfTile + threadIdx.x),
        row(chunk * tiles.chunk_rows + threadIdx.y),
        end(min((chunk + 1) * tiles.chunk_rows, tiles.rows)) {}
};

/// Calls function.of_column(column)(row) for each element of the matrix.
template <class Function>
__global__ void __launch_bounds__(kBlockThreads)
    column_map_kernel(__grid_constant__ ColumnTiles const tiles,
                      __grid_constant__ Function const function) {
  ColumnPlace const place(tiles);
  if (place.column >= tiles.width || place.row >= place.end) {
    return;
  }
  auto const of_column = function.of_column(place.column);
#pragma unroll 4
  for (auto row = place.row; row < place.end; row += kRowsOfTile) {
    of_column(row);
  }
}
template <class Function>
void map_columns(CudaStream stream,
                 char const* name,
                 std::int64_t rows,
                 std::int64_t width,
                 Function const& function) {
  if (rows > 0 && width > 0) {
    auto const tiles = tiles_of_map(rows, width);
    column_map_kernel<<<tiles.blocks(), dim3(kColumnsOfTile, kRowsOfTile), 0, stream>>>(tiles,
                                                                                        function);
    check_launch(name);
  }
}

/// Adds the sums of other elements of a column: by Terms::add() if there is one, otherwise each to
/// its own.
template <class Terms, int Count>
__device__ void add_sums(double (&sums)[Count], double const (&others)[Count]) {
  if constexpr (requires { Terms::add(sums, others); }) {
    Terms::add(sums, others);
  } else {
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      sums[k] += others[k];
    }
  }
}

/// Adds the `Count` terms of each element of a chunk: terms.of_column(column)(row, sums). Passes
/// the sums of a matrix of one chunk to finish(column, sums), and stores those of several in
/// `partials` [chunks, Count, width].
template <int Count, class Terms, class Finish>
__global__ void __launch_bounds__(kBlockThreads)
    column_sums_kernel(__grid_constant__ ColumnTiles const tiles,
                       __grid_constant__ Terms const terms,
                       __grid_constant__ Finish const finish,
                       double* partials) {
  __shared__ double shared[Count][kRowsOfTile][kColumnsOfTile];
  ColumnPlace const place(tiles);
  bool const exists = place.column < tiles.width;
  double sums[Count] = {};
  if (exists && place.row < place.end) {
    auto const of_column = terms.of_column(place.column);
#pragma unroll 4
    for (auto row = place.row; row < place.end; row += kRowsOfTile) {
      of_column(row, sums);
    }
  }
#pragma unroll
  for (int k = 0; k < Count; ++k) {
    shared[k][threadIdx.y][threadIdx.x] = sums[k];
  }
  __syncthreads();
  if (threadIdx.y != 0 || !exists) {
    return;
  }
  for (int other = 1; other < kRowsOfTile; ++other) {
    double others[Count];
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      others[k] = shared[k][other][threadIdx.x];
    }
    add_sums<Terms>(sums, others);
  }
  if (partials == nullptr) {
    finish(place.column, sums);
    return;
  }
#pragma unroll
  for (int k = 0; k < Count; ++k) {
    partials[(place.chunk * Count + k) * tiles.width + place.column] = sums[k];
  }
}

/// Adds the sums of the chunks that column_sums_kernel() has stored, one column per thread.
template <int Count, class Terms, class Finish>
__global__ void __launch_bounds__(kBlockThreads)
    column_totals_kernel(std::int64_t width,
                         std::int64_t chunks,
                         double const* partials,
                         __grid_constant__ Finish const finish) {
  auto const column = grid_thread();
  if (column >= width) {
    return;
  }
  double sums[Count] = {};
#pragma unroll 4
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    double others[Count];
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      others[k] = partials[(chunk * Count + k) * width + column];
    }
    add_sums<Terms>(sums, others);
  }
  finish(column, sums);
}

/// Returns the bytes of workspace that sum_columns() needs: 0 where one launch suffices.
inline std::size_t column_sums_workspace_bytes(int count, std::int64_t rows, std::int64_t width) {
  auto const tiles = tiles_of_sums(rows, width);
  return tiles.chunks == 1
             ? 0
             : static_cast<std::size_t>(tiles.chunks * count * width) * sizeof(double);
}
/// Sums `Count` terms of the elements of each column, and calls finish(column, sums) for each
/// column, also without rows. One launch or two.
template <int Count, class Terms, class Finish>
void sum_columns(CudaStream stream,
                 char const* name,
                 std::int64_t rows,
                 std::int64_t width,
                 void* workspace,
                 Terms const& terms,
                 Finish const& finish) {
  if (width == 0) {
    return;
  }
  auto const tiles = tiles_of_sums(rows, width);
  auto* const partials = tiles.chunks == 1 ? nullptr : static_cast<double*>(workspace);
  column_sums_kernel<Count><<<tiles.blocks(), dim3(kColumnsOfTile, kRowsOfTile), 0, stream>>>(
      tiles, terms, finish, partials);
  check_launch(name);
  if (partials != nullptr) {
    column_totals_kernel<Count, Terms>
        <<<grid_for(width, kBlockThreads), kBlockThreads, 0, stream>>>(
            width, tiles.chunks, partials, finish);
    check_launch(name);
  }
}

}  // namespace msstream::ops::kernels
