// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "normalize/batch_norm.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

/// Kernels that walk down the columns of matrices of one shape: each thread has one column, or two
/// neighbouring ones if rows begin at multiples of 8 bytes, of a chunk of rows, and keeps the
/// numbers that belong to its columns in registers.
///
///   block: `lanes` times one or two columns, a tile, of a chunk of rows
///   thread (c, r) of (lanes, 256 / lanes): rows r, r + 256 / lanes, … of the chunk
///
/// Sums are added in float64, in an order that the sizes and the alignment decide: each thread its
/// rows, then the threads of a column in a tree, then the chunks.
///
/// A function of elements is a class with these members:
///
///   static constexpr int kInputs        the matrices that it reads
///   input(i), mask()                    them, and the rows that count
///   of_column(column)                   the function of one column
///
/// The function of a column computes an element of output() by element(counts, x), or adds to the
/// sums of the column by add(counts, x, sums): `counts` says whether the row counts, and x are the
/// elements of the inputs.
namespace msstream::ops::kernels {

/// The division of a matrix into chunks of rows and tiles of columns.
struct ColumnTiles {
  std::int64_t rows;
  std::int64_t width;
  int log2_lanes = 0;
  std::int64_t tiles = 1;
  std::int64_t chunk_rows = 1;
  std::int64_t chunks = 1;  ///< at least 1

  /// Divides the rows into chunks in which a thread has `least_rows` or more, enough for about four
  /// blocks on each of 132 multiprocessors, and at most `most_chunks`.
  ColumnTiles(std::int64_t all_rows,
              std::int64_t all_columns,
              std::int64_t least_rows,
              std::int64_t most_chunks)
      : rows(all_rows), width(all_columns) {
    constexpr std::int64_t kEnoughBlocks = 512;
    divide_columns(width % 2 == 0 ? 2 : 1);
    auto const wanted = std::min({ceil_div(kEnoughBlocks, tiles),
                                  ceil_div(rows, least_rows * (kBlockThreads >> log2_lanes)),
                                  most_chunks});
    chunk_rows = std::max<std::int64_t>(ceil_div(rows, std::max<std::int64_t>(wanted, 1)), 1);
    chunks = std::max<std::int64_t>(ceil_div(rows, chunk_rows), 1);
  }

  /// Divides the columns among threads with `columns` of them each. The chunks stay as they are.
  void divide_columns(int columns) {
    auto const threads = static_cast<unsigned>(
        std::clamp<std::int64_t>(ceil_div<std::int64_t>(width, columns), 1, 32));
    log2_lanes = std::bit_width(threads - 1);
    tiles = std::max<std::int64_t>(ceil_div(width, std::int64_t{columns} << log2_lanes), 1);
  }

  [[nodiscard]] unsigned blocks() const { return grid_for(tiles * chunks, 1); }
  [[nodiscard]] dim3 threads() const {
    return {1U << log2_lanes, static_cast<unsigned>(kBlockThreads) >> log2_lanes};
  }
};
/// Returns the division for sums of columns, whose chunks a second pass adds up.
inline ColumnTiles tiles_of_sums(std::int64_t rows, std::int64_t width) {
  return {rows, width, 8, 512};
}
/// Returns the division for functions of each element.
inline ColumnTiles tiles_of_map(std::int64_t rows, std::int64_t width) {
  return {rows, width, 4, std::int64_t{1} << 40U};
}

/// The rows and the `Columns` columns of the calling thread.
template <int Columns>
struct ColumnPlace {
  std::int64_t chunk;
  std::int64_t column;  ///< the first one; all exist or none
  std::int64_t row;
  std::int64_t end;
  int step;  ///< from one row of the thread to its next one

  explicit __device__ ColumnPlace(ColumnTiles const& tiles)
      : chunk(blockIdx.x / tiles.tiles),
        column((((blockIdx.x - chunk * tiles.tiles) << tiles.log2_lanes) + threadIdx.x) * Columns),
        row(chunk * tiles.chunk_rows + threadIdx.y),
        end(min((chunk + 1) * tiles.chunk_rows, tiles.rows)),
        step(static_cast<int>(blockDim.y)) {}
};

/// The elements of one row in the columns of a thread: [inputs, columns].
template <int Inputs, int Columns>
using ColumnElements = Pack<float, Columns>[Inputs];

/// Calls each(row, counts, elements) for the rows of a thread, from the first one on. Loads several
/// rows before the first of them is used.
template <int Columns, class Function, class Each>
__device__ void for_each_row(ColumnTiles const& tiles,
                             ColumnPlace<Columns> const& place,
                             Function const& function,
                             Each const& each) {
  constexpr int kInputs = Function::kInputs;
  constexpr int kInFlight = (Columns == 1 ? 8 : 12) / (kInputs * Columns);
  auto const mask = function.mask();
  auto stride = place.step * tiles.width;
  auto at = place.row * tiles.width + place.column;
  for (auto row = place.row; row < place.end; row += kInFlight * place.step) {
    // Keeps the compiler from holding the distances of all rows in registers.
    asm volatile("" : "+l"(stride));
    auto const rows = static_cast<int>(min(place.end - row, std::int64_t{kInFlight} * place.step));
    ColumnElements<kInputs, Columns> elements[kInFlight];
    bool counts[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (k * place.step < rows) {
        counts[k] = mask.counts(row + k * place.step);
#pragma unroll
        for (int i = 0; i < kInputs; ++i) {
          elements[k][i] =
              *reinterpret_cast<Pack<float, Columns> const*>(function.input(i) + at + k * stride);
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (k * place.step < rows) {
        each(at, counts[k], elements[k]);
        at += stride;
      }
    }
  }
}
/// Returns the elements of the inputs in column c of a thread.
template <int Inputs, int Columns>
struct ElementsOfColumn {
  float x[Inputs];

  __device__ ElementsOfColumn(ColumnElements<Inputs, Columns> const& elements, int c) {
#pragma unroll
    for (int i = 0; i < Inputs; ++i) {
      x[i] = elements[i].lanes[c];
    }
  }
};

/// The functions of a thread's columns.
template <int Columns, class Function>
struct ColumnFunctions {
  using OfColumn = decltype(std::declval<Function const&>().of_column(0));
  OfColumn at[Columns];

  __device__ ColumnFunctions(Function const& function, std::int64_t column)
      : ColumnFunctions(function, column, std::make_integer_sequence<int, Columns>()) {}

 private:
  template <int... C>
  __device__ ColumnFunctions(Function const& function,
                             std::int64_t column,
                             std::integer_sequence<int, C...>)
      : at{function.of_column(column + C)...} {}
};

/// Stores the elements of the output in the columns of a thread, from element `at` on.
template <int Columns, class Function>
__device__ void store_elements(Function const& function,
                               ColumnFunctions<Columns, Function> const& functions,
                               std::int64_t at,
                               bool counts,
                               ColumnElements<Function::kInputs, Columns> const& elements) {
  Pack<float, Columns> results;
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    ElementsOfColumn<Function::kInputs, Columns> const of(elements, c);
    results.lanes[c] = functions.at[c].element(counts, of.x);
  }
  *reinterpret_cast<Pack<float, Columns>*>(function.output() + at) = results;
}

template <class Function>
concept HasOutput = requires(Function const& function) {
  function.output();
};

/// Computes each element of the function's output().
template <int Columns, class Function>
__global__ void __launch_bounds__(kBlockThreads, 4)
    column_map_kernel(__grid_constant__ ColumnTiles const tiles,
                      __grid_constant__ Function const function) {
  ColumnPlace<Columns> const place(tiles);
  if (place.column >= tiles.width || place.row >= place.end) {
    return;
  }
  ColumnFunctions<Columns, Function> const functions(function, place.column);
  for_each_row(tiles, place, function, [&](std::int64_t at, bool counts, auto const& elements) {
    store_elements(function, functions, at, counts, elements);
  });
}

/// Calls launch(columns of a thread as a constant, tiles) for matrices of which a thread has two
/// columns if all pointers allow it.
template <class Launch, class... Pointers>
void with_columns_a_thread(ColumnTiles tiles, Launch const& launch, Pointers const*... pointers) {
  if (tiles.width % 2 == 0 && ((reinterpret_cast<std::uintptr_t>(pointers) % 8 == 0) && ...)) {
    launch(std::integral_constant<int, 2>{}, tiles);
  } else {
    tiles.divide_columns(1);
    launch(std::integral_constant<int, 1>{}, tiles);
  }
}
template <class Function>
void map_columns(CudaStream stream,
                 char const* name,
                 std::int64_t rows,
                 std::int64_t width,
                 Function const& function) {
  if (rows > 0 && width > 0) {
    with_columns_a_thread(
        tiles_of_map(rows, width),
        [&](auto columns, ColumnTiles const& tiles) {
          column_map_kernel<columns.value>
              <<<tiles.blocks(), tiles.threads(), 0, stream>>>(tiles, function);
        },
        function.input(0),
        function.input(Function::kInputs - 1),
        function.output());
    check_launch(name);
  }
}

/// Adds the sums of other elements of a column: by Terms::add_sums() if there is one, otherwise
/// each to its own.
template <class Terms, int Count>
__device__ void add_sums(double (&sums)[Count], double const (&others)[Count]) {
  if constexpr (requires { Terms::add_sums(sums, others); }) {
    Terms::add_sums(sums, others);
  } else {
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      sums[k] += others[k];
    }
  }
}
/// Adds the sums of the threads (x, 1), (x, 2), … of a block to those of thread (x, 0), in a tree.
/// blockDim.y is a power of two. All threads of the block call it, with `shared` memory of their
/// number.
template <class Terms, int Count>
__device__ void add_sums_of_threads(double (&sums)[Count], double (*shared)[kBlockThreads]) {
  int const thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half && threadIdx.y < 2 * half) {
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        shared[k][thread] = sums[k];
      }
    }
    __syncthreads();
    if (threadIdx.y < half) {
      double others[Count];
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        others[k] = shared[k][thread + half * blockDim.x];
      }
      add_sums<Terms>(sums, others);
    }
  }
}

/// Adds the `Count` terms of each element of a chunk. Passes the sums of a matrix of one chunk to
/// finish(column, sums), and stores those of several in `partials` [chunks, Count, width]. Terms
/// with an output() also compute the elements of it, unless it is null.
template <int Count, int Columns, class Terms, class Finish>
__global__ void __launch_bounds__(kBlockThreads, 4)
    column_sums_kernel(__grid_constant__ ColumnTiles const tiles,
                       __grid_constant__ Terms const terms,
                       __grid_constant__ Finish const finish,
                       double* partials) {
  __shared__ double shared[Count][kBlockThreads];
  ColumnPlace<Columns> const place(tiles);
  bool const exists = place.column < tiles.width;
  double sums[Columns][Count] = {};
  if (exists && place.row < place.end) {
    ColumnFunctions<Columns, Terms> const functions(terms, place.column);
    for_each_row(tiles, place, terms, [&](std::int64_t at, bool counts, auto const& elements) {
#pragma unroll
      for (int c = 0; c < Columns; ++c) {
        ElementsOfColumn<Terms::kInputs, Columns> const of(elements, c);
        functions.at[c].add(counts, of.x, sums[c]);
      }
      if constexpr (HasOutput<Terms>) {
        if (terms.output() != nullptr) {
          store_elements(terms, functions, at, counts, elements);
        }
      }
    });
  }
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    add_sums_of_threads<Terms>(sums[c], shared);
  }
  if (threadIdx.y != 0 || !exists) {
    return;
  }
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    auto const column = place.column + c;
    if (partials == nullptr) {
      finish(column, sums[c]);
      continue;
    }
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      partials[(place.chunk * Count + k) * tiles.width + column] = sums[c][k];
    }
  }
}

inline constexpr int kColumnsOfTotals = 8;

/// Adds the sums of the chunks that column_sums_kernel() has stored. A block has kColumnsOfTotals
/// columns, and thread (c, p) of (8, 32) the chunks p, p + 32, … of column c.
template <int Count, class Terms, class Finish>
__global__ void __launch_bounds__(kBlockThreads)
    column_totals_kernel(std::int64_t width,
                         std::int64_t chunks,
                         double const* partials,
                         __grid_constant__ Finish const finish) {
  __shared__ double shared[Count][kBlockThreads];
  auto const column = static_cast<std::int64_t>(blockIdx.x) * kColumnsOfTotals + threadIdx.x;
  double sums[Count] = {};
  if (column < width) {
#pragma unroll 4
    for (std::int64_t chunk = threadIdx.y; chunk < chunks; chunk += blockDim.y) {
      double others[Count];
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        others[k] = partials[(chunk * Count + k) * width + column];
      }
      add_sums<Terms>(sums, others);
    }
  }
  add_sums_of_threads<Terms>(sums, shared);
  if (threadIdx.y == 0 && column < width) {
    finish(column, sums);
  }
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
  auto const division = tiles_of_sums(rows, width);
  auto* const partials = division.chunks == 1 ? nullptr : static_cast<double*>(workspace);
  float const* output = nullptr;
  if constexpr (HasOutput<Terms>) {
    output = terms.output();
  }
  with_columns_a_thread(
      division,
      [&](auto columns, ColumnTiles const& tiles) {
        column_sums_kernel<Count, columns.value>
            <<<tiles.blocks(), tiles.threads(), 0, stream>>>(tiles, terms, finish, partials);
      },
      terms.input(0),
      terms.input(Terms::kInputs - 1),
      output);
  check_launch(name);
  if (partials != nullptr) {
    column_totals_kernel<Count, Terms><<<grid_for(width, kColumnsOfTotals),
                                         dim3(kColumnsOfTotals, kBlockThreads / kColumnsOfTotals),
                                         0,
                                         stream>>>(width, division.chunks, partials, finish);
    check_launch(name);
  }
}

}  // namespace msstream::ops::kernels
