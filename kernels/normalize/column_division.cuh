// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/vector_map.cuh"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

/// The division of a matrix among blocks of threads that walk down its columns.
///
/// A row of the tiles is a row of the matrix, or several neighbouring ones, `fold` of them, which
/// begin at a multiple of some bytes if the matrix does, though a row of the matrix does not:
///
///   width 3, fold 2    row i of the tiles    columns 0 to 2 of row 2 i, 0 to 2 of row 2 i + 1
///
/// The rows at the end, fewer than `fold`, have blocks of their own, in which each thread has one
/// column.
namespace msstream::ops::kernels {

/// The division of a matrix into chunks of rows and tiles of columns.
struct ColumnTiles {
  std::int64_t rows;
  std::int64_t width;
  std::int64_t fold;       ///< rows of the matrix that are one row of the tiles
  std::int64_t fold_rows;  ///< rows of the tiles
  std::int64_t fold_width;
  int log2_lanes = 0;
  std::int64_t tiles = 1;
  std::int64_t chunk_rows = 1;  ///< rows of the tiles in a chunk
  std::int64_t chunks = 1;      ///< at least 1

  /// Divides the rows into chunks in which a thread has `least_rows` or more, enough for about four
  /// blocks on each of 132 multiprocessors, and at most `most_chunks`.
  ColumnTiles(std::int64_t all_rows,
              std::int64_t all_columns,
              std::int64_t rows_of_fold,
              std::int64_t least_rows,
              std::int64_t most_chunks)
      : rows(all_rows),
        width(all_columns),
        fold(rows_of_fold),
        fold_rows(rows / fold),
        fold_width(width * fold) {
    constexpr std::int64_t kEnoughBlocks = 512;
    divide_columns(fold_width % 2 == 0 ? 2 : 1);
    auto const wanted = std::min({ceil_div(kEnoughBlocks, tiles),
                                  ceil_div(fold_rows, least_rows * (kBlockThreads >> log2_lanes)),
                                  most_chunks});
    chunk_rows = std::max<std::int64_t>(ceil_div(fold_rows, std::max<std::int64_t>(wanted, 1)), 1);
    chunks = std::max<std::int64_t>(ceil_div(fold_rows, chunk_rows), 1);
  }

  /// Divides the columns among threads with `columns` of them each. The chunks stay as they are.
  void divide_columns(int columns) {
    auto const threads = static_cast<unsigned>(
        std::clamp<std::int64_t>(ceil_div<std::int64_t>(fold_width, columns), 1, 32));
    log2_lanes = std::bit_width(threads - 1);
    tiles = std::max<std::int64_t>(ceil_div(fold_width, std::int64_t{columns} << log2_lanes), 1);
  }

  /// Returns the number of rows at the end that are no row of the tiles.
  [[nodiscard]] __host__ __device__ std::int64_t rest() const { return rows - fold_rows * fold; }
  /// Returns the number of sums of each column: one of each row of a fold in each chunk, and one
  /// of the rows at the end.
  [[nodiscard]] __host__ __device__ std::int64_t parts() const {
    return chunks * fold + (rest() > 0 ? 1 : 0);
  }
  [[nodiscard]] unsigned blocks() const {
    auto const of_rest = rest() > 0 ? ceil_div<std::int64_t>(width, kBlockThreads) : 0;
    return grid_for(tiles * chunks + of_rest, 1);
  }
  [[nodiscard]] dim3 threads() const {
    return {1U << log2_lanes, static_cast<unsigned>(kBlockThreads) >> log2_lanes};
  }
};
/// Returns how many rows are folded into one that begins at a multiple of `floats` floats, a power
/// of two, if the matrix does; 1 if the matrix has fewer elements than `fewest`, too few to gain.
inline std::int64_t fold_of(std::int64_t rows,
                            std::int64_t width,
                            std::int64_t floats,
                            std::int64_t fewest) {
  constexpr std::int64_t kMostColumns = std::int64_t{1} << 24U;  // so that 32 bits can count them
  bool const gains = rows * width >= fewest && width <= kMostColumns;
  return gains ? floats / std::gcd(width, floats) : 1;
}
/// The division for sums of columns, whose chunks a second pass adds up.
struct TilesOfSums {
  static std::int64_t fold(std::int64_t rows, std::int64_t width) {
    // Rows of fewer columns would have too many sums, and so would smaller matrices.
    constexpr std::int64_t kFewestColumns = 9;
    constexpr std::int64_t kFewestElements = std::int64_t{1} << 22U;
    return width < kFewestColumns ? 1 : fold_of(rows, width, 2, kFewestElements);
  }
  static ColumnTiles tiles(std::int64_t rows, std::int64_t width, std::int64_t fold) {
    return {rows, width, fold, 8, 512};
  }
};
/// The division for functions of each element.
struct TilesOfMap {
  static std::int64_t fold(std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t kFewestElements = std::int64_t{1} << 18U;
    return fold_of(rows, width, 8, kFewestElements);
  }
  static ColumnTiles tiles(std::int64_t rows, std::int64_t width, std::int64_t fold) {
    return {rows, width, fold, 4, std::int64_t{1} << 40U};
  }
};

}  // namespace msstream::ops::kernels
