// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "normalize/batch_norm.hpp"
#include "normalize/column_division.cuh"

#include <msstream/runtime/stream_ref.hpp>

#include <algorithm>
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
/// If rows do not begin at such multiples but the matrix does, neighbouring rows are taken as one
/// row of the tiles (normalize/column_division.cuh).
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

/// The rows of a thread: rows of the tiles that are one row of the matrix or several, or
/// the rows at the end of a matrix.
enum class TileRows { single, folded, rest };

/// The rows and the `Columns` columns of the calling thread.
template <int Columns, TileRows Kind>
struct ColumnPlace {
  static constexpr bool kIsInRest = Kind == TileRows::rest;

  ColumnTiles const& tiles;
  std::int64_t chunk = 0;
  std::int64_t column = 0;  ///< the first one; all exist or none
  std::int64_t row = 0;
  std::int64_t end = 0;
  int step = 1;  ///< from one row of the thread to its next one
  int part = 0;  ///< the row of a fold that has the first column

  explicit __device__ ColumnPlace(ColumnTiles const& of) : tiles(of) {
    if constexpr (kIsInRest) {
      static_assert(Columns == 1);
      column = (blockIdx.x - tiles.tiles * tiles.chunks) * kBlockThreads +
               threadIdx.y * blockDim.x + threadIdx.x;
      row = tiles.fold_rows * tiles.fold;
      end = tiles.rows;
    } else {
      chunk = blockIdx.x / tiles.tiles;
      column = (((blockIdx.x - chunk * tiles.tiles) << tiles.log2_lanes) + threadIdx.x) * Columns;
      row = chunk * tiles.chunk_rows + threadIdx.y;
      end = min((chunk + 1) * tiles.chunk_rows, tiles.fold_rows);
      step = static_cast<int>(blockDim.y);
      if constexpr (Kind == TileRows::folded) {
        part = static_cast<int>(static_cast<unsigned>(column) / static_cast<unsigned>(tiles.width));
      }
    }
  }

  /// Returns the number of columns of a row.
  [[nodiscard]] __device__ std::int64_t width() const {
    return Kind == TileRows::folded ? tiles.fold_width : tiles.width;
  }
  [[nodiscard]] __device__ bool has_elements() const { return column < width() && row < end; }
  /// Returns the row of a fold that has column c of the thread.
  [[nodiscard]] __device__ int part_of(int c) const {
    if constexpr (Kind == TileRows::folded) {
      return part + (column + c >= (part + 1) * tiles.width ? 1 : 0);
    } else {
      return 0;
    }
  }
  /// Returns the number of column c of the thread in the matrix.
  [[nodiscard]] __device__ std::int64_t column_of(int c) const {
    return column + c - part_of(c) * tiles.width;
  }
  /// Returns the number of a row in the matrix, where it has column c of the thread.
  [[nodiscard]] __device__ std::int64_t row_of(std::int64_t of, int c) const {
    return Kind == TileRows::folded ? of * tiles.fold + part_of(c) : of;
  }
  /// Returns the number of the part of the rows to which column c of the thread belongs.
  [[nodiscard]] __device__ std::int64_t sum_of(int c) const {
    return kIsInRest ? tiles.chunks * tiles.fold : chunk * tiles.fold + part_of(c);
  }
};
/// Returns whether the calling thread's block has the rows at the end of a matrix.
__device__ inline bool is_in_rest(ColumnTiles const& tiles) {
  return blockIdx.x >= tiles.tiles * tiles.chunks;
}

/// The elements of one row in the columns of a thread: [inputs, columns].
template <int Inputs, int Columns>
using ColumnElements = Pack<float, Columns>[Inputs];

/// Calls each(at, counts, elements) for the rows of a thread, where `at` is the thread's first
/// element of the row and bit c of `counts` says whether the row that has column c counts. Loads
/// several rows before the first of them is used.
template <int Columns, TileRows Kind, class Function, class Each>
__device__ void for_each_row(ColumnPlace<Columns, Kind> const& place,
                             Function const& function,
                             Each const& each) {
  constexpr int kInputs = Function::kInputs;
  constexpr int kInFlight = (Columns == 1 ? 8 : 12) / (kInputs * Columns);
  auto const mask = function.mask();
  auto stride = place.step * place.width();
  auto at = place.row * place.width() + place.column;
  for (auto row = place.row; row < place.end; row += kInFlight * place.step) {
    // Keeps the compiler from holding the distances of all rows in registers.
    asm volatile("" : "+l"(stride));
    auto const rows = static_cast<int>(min(place.end - row, std::int64_t{kInFlight} * place.step));
    unsigned counts = ~0U;  // a bit for each element
    if (mask.marks != nullptr) {
      int step = place.step;
      asm volatile("" : "+r"(step));  // as above
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
#pragma unroll
        for (int c = 0; c < Columns; ++c) {
          if (k * step < rows && !mask.counts(place.row_of(row + k * step, c))) {
            counts &= ~(1U << (k * Columns + c));
          }
        }
      }
    }
    ColumnElements<kInputs, Columns> elements[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (k * place.step < rows) {
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
        each(at, counts >> (k * Columns), elements[k]);
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

  template <class Place>
  __device__ ColumnFunctions(Function const& function, Place const& place)
      : ColumnFunctions(function, place, std::make_integer_sequence<int, Columns>()) {}

 private:
  template <class Place, int... C>
  __device__ ColumnFunctions(Function const& function,
                             Place const& place,
                             std::integer_sequence<int, C...>)
      : at{function.of_column(place.column_of(C))...} {}
};

/// Stores the elements of the output in the columns of a thread, from element `at` on.
template <int Columns, class Function>
__device__ void store_elements(Function const& function,
                               ColumnFunctions<Columns, Function> const& functions,
                               std::int64_t at,
                               unsigned counts,
                               ColumnElements<Function::kInputs, Columns> const& elements) {
  Pack<float, Columns> results;
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    ElementsOfColumn<Function::kInputs, Columns> const of(elements, c);
    results.lanes[c] = functions.at[c].element((counts >> c & 1U) != 0, of.x);
  }
  *reinterpret_cast<Pack<float, Columns>*>(function.output() + at) = results;
}

template <class Function>
concept HasOutput = requires(Function const& function) {
  function.output();
};

/// Computes the elements of the function's output() in a place.
template <int Columns, TileRows Kind, class Function>
__device__ void map_place(ColumnPlace<Columns, Kind> const& place, Function const& function) {
  if (!place.has_elements()) {
    return;
  }
  ColumnFunctions<Columns, Function> const functions(function, place);
  for_each_row(place, function, [&](std::int64_t at, unsigned counts, auto const& elements) {
    store_elements(function, functions, at, counts, elements);
  });
}
/// Computes each element of the function's output().
template <int Columns, TileRows Kind, class Function>
__global__ void __launch_bounds__(kBlockThreads, 4)
    column_map_kernel(__grid_constant__ ColumnTiles const tiles,
                      __grid_constant__ Function const function) {
  if (Kind == TileRows::folded && is_in_rest(tiles)) {
    map_place(ColumnPlace<1, TileRows::rest>(tiles), function);
  } else {
    map_place(ColumnPlace<Columns, Kind>(tiles), function);
  }
}

/// Calls launch(columns of a thread, kind of rows, tiles), the first two as constants, for matrices
/// of which a thread has two columns if all pointers allow it. `Division` is TilesOfSums or
/// TilesOfMap, whose folds have an even number of columns.
template <class Division, class Launch, class... Pointers>
void with_columns_a_thread(std::int64_t rows,
                           std::int64_t width,
                           Launch const& launch,
                           Pointers const*... pointers) {
  bool const allow = ((reinterpret_cast<std::uintptr_t>(pointers) % 8 == 0) && ...);
  auto tiles = Division::tiles(rows, width, allow ? Division::fold(rows, width) : 1);
  using Single = std::integral_constant<TileRows, TileRows::single>;
  if (tiles.fold > 1) {
    using Folded = std::integral_constant<TileRows, TileRows::folded>;
    launch(std::integral_constant<int, 2>{}, Folded{}, tiles);
  } else if (allow && width % 2 == 0) {
    launch(std::integral_constant<int, 2>{}, Single{}, tiles);
  } else {
    tiles.divide_columns(1);
    launch(std::integral_constant<int, 1>{}, Single{}, tiles);
  }
}
template <class Function>
void map_columns(CudaStream stream,
                 char const* name,
                 std::int64_t rows,
                 std::int64_t width,
                 Function const& function) {
  if (rows > 0 && width > 0) {
    with_columns_a_thread<TilesOfMap>(
        rows,
        width,
        [&](auto columns, auto kind, ColumnTiles const& tiles) {
          column_map_kernel<columns.value, kind.value>
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

/// Adds the `Count` terms of each element of a place. Terms with an output() also compute the
/// elements of it, unless it is null.
template <int Count, int Columns, TileRows Kind, class Terms>
__device__ void sum_place(ColumnPlace<Columns, Kind> const& place,
                          Terms const& terms,
                          double (&sums)[Columns][Count]) {
  if (!place.has_elements()) {
    return;
  }
  ColumnFunctions<Columns, Terms> const functions(terms, place);
  for_each_row(place, terms, [&](std::int64_t at, unsigned counts, auto const& elements) {
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      ElementsOfColumn<Terms::kInputs, Columns> const of(elements, c);
      functions.at[c].add((counts >> c & 1U) != 0, of.x, sums[c]);
    }
    if constexpr (HasOutput<Terms>) {
      if (terms.output() != nullptr) {
        store_elements(terms, functions, at, counts, elements);
      }
    }
  });
}
/// Stores the sums of column c of a place in `partials` [parts, Count, width].
template <class Place, int Count>
__device__ void store_partial(Place const& place,
                              int c,
                              double const (&sums)[Count],
                              double* partials) {
#pragma unroll
  for (int k = 0; k < Count; ++k) {
    partials[(place.sum_of(c) * Count + k) * place.tiles.width + place.column_of(c)] = sums[k];
  }
}

/// Adds the `Count` terms of each element of a chunk. Passes the sums of a matrix of one part to
/// finish(column, sums), and stores those of several in `partials` [parts, Count, width].
template <int Count, int Columns, TileRows Kind, class Terms, class Finish>
__global__ void __launch_bounds__(kBlockThreads, 4)
    column_sums_kernel(__grid_constant__ ColumnTiles const tiles,
                       __grid_constant__ Terms const terms,
                       __grid_constant__ Finish const finish,
                       double* partials) {
  __shared__ double shared[Count][kBlockThreads];
  if (Kind == TileRows::folded && is_in_rest(tiles)) {
    ColumnPlace<1, TileRows::rest> const place(tiles);
    double sums[1][Count] = {};
    sum_place(place, terms, sums);
    if (place.column < tiles.width) {
      store_partial(place, 0, sums[0], partials);
    }
    return;
  }
  ColumnPlace<Columns, Kind> const place(tiles);
  double sums[Columns][Count] = {};
  sum_place(place, terms, sums);
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    add_sums_of_threads<Terms>(sums[c], shared);
  }
  if (threadIdx.y != 0 || place.column >= place.width()) {
    return;
  }
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    if (partials == nullptr) {
      finish(place.column_of(c), sums[c]);
    } else {
      store_partial(place, c, sums[c], partials);
    }
  }
}

inline constexpr int kColumnsOfTotals = 8;

/// Adds the sums of the parts that column_sums_kernel() has stored. A block has kColumnsOfTotals
/// columns, and thread (c, p) of (8, 32) the parts p, p + 32, … of column c.
template <int Count, class Terms, class Finish>
__global__ void __launch_bounds__(kBlockThreads)
    column_totals_kernel(std::int64_t width,
                         std::int64_t parts,
                         double const* partials,
                         __grid_constant__ Finish const finish) {
  __shared__ double shared[Count][kBlockThreads];
  auto const column = static_cast<std::int64_t>(blockIdx.x) * kColumnsOfTotals + threadIdx.x;
  double sums[Count] = {};
  if (column < width) {
#pragma unroll 4
    for (std::int64_t part = threadIdx.y; part < parts; part += blockDim.y) {
      double others[Count];
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        others[k] = partials[(part * Count + k) * width + column];
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
  // It is not known yet whether the pointers allow rows to be folded.
  auto const parts =
      std::max(TilesOfSums::tiles(rows, width, 1).parts(),
               TilesOfSums::tiles(rows, width, TilesOfSums::fold(rows, width)).parts());
  return parts == 1 ? 0 : static_cast<std::size_t>(parts * count * width) * sizeof(double);
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
  float const* output = nullptr;
  if constexpr (HasOutput<Terms>) {
    output = terms.output();
  }
  with_columns_a_thread<TilesOfSums>(
      rows,
      width,
      [&](auto columns, auto kind, ColumnTiles const& tiles) {
        auto const parts = tiles.parts();
        auto* const partials = parts == 1 ? nullptr : static_cast<double*>(workspace);
        column_sums_kernel<Count, columns.value, kind.value>
            <<<tiles.blocks(), tiles.threads(), 0, stream>>>(tiles, terms, finish, partials);
        check_launch(name);
        if (partials != nullptr) {
          column_totals_kernel<Count, Terms>
              <<<grid_for(width, kColumnsOfTotals),
                 dim3(kColumnsOfTotals, kBlockThreads / kColumnsOfTotals),
                 0,
                 stream>>>(width, parts, partials, finish);
          check_launch(name);
        }
      },
      terms.input(0),
      terms.input(Terms::kInputs - 1),
      output);
}

}  // namespace msstream::ops::kernels
