// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "elementwise/row_columns.cuh"
#include "elementwise/row_team.cuh"
#include "elementwise/staged_elements.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// Functions of the rows of matrices whose rows stay in registers, so that each input is read once.
///
/// If rows begin at multiples of 16 bytes, threads load and store 16 bytes of a row at a time:
///
///   width         up to 64      512       1,024      8,192
///   team          lanes         lanes     a warp     a block
///   columns each  8 or 16       16        32         16 or 32, the latter of half precision
///
/// Two inputs of floats leave no room for 32 columns: a block has their rows of more than 512.
///
/// Otherwise a block copies neighbouring rows to shared memory, 16 bytes at a time wherever they
/// begin, and its threads take single columns from there:
///
///   width         up to 256     512       8,192
///   team          lanes         a warp    a block
///   columns each  8             16        16
///
/// Wider rows, and rows that take more than kMostStagedBytes of shared memory, do not fit. Which
/// columns a thread has, and so the order of additions, depends on the width, the types and the
/// alignment alone.
///
/// A function is a class with these members, and a RowsOfTeam is what it is called with:
///
///   using In, Out                         types of the inputs and of the output
///   static constexpr int kInputs          1 or 2
///   rows(), columns()
///   input(i), output()                    the matrices
///   operator()(team, rows of the team)    computes the output of the rows
namespace msstream::ops::kernels {

/// The rows that a team of threads computes at once, and the columns of each thread: columns of a
/// row are numbered from 0 to kCount - 1 in the thread.
template <class Function, class TeamOfRows, int Count, int Rows, bool kIsAligned>
struct RowsOfTeam {
  using Team = TeamOfRows;
  using In = typename Function::In;
  using Out = typename Function::Out;
  using ColumnsOfThread = RowColumns<In, Count, kIsAligned>;
  using Packed = typename ColumnsOfThread::Packed;
  static constexpr int kCount = Count;
  static constexpr int kRows = Rows;
  static constexpr int kVector = ColumnsOfThread::kVector;

  ColumnsOfThread columns;
  int width;                            ///< columns of a row
  int step;                             ///< rows of the matrix from one row of the team to the next
  std::int64_t row;                     ///< number of the team's first row in the matrix
  int rows;                             ///< rows from the first one on that exist; may be negative
  In const* inputs[Function::kInputs];  ///< the first row of each input
  Out* output;

  [[nodiscard]] __device__ bool exists(int r) const { return r * step < rows; }
  /// Returns the number of a row of the team in the matrix.
  [[nodiscard]] __device__ std::int64_t number(int r) const {
    return row + static_cast<std::int64_t>(r) * step;
  }
  /// Returns the elements of a row of input i.
  [[nodiscard]] __device__ In const* input(int i, int r) const {
    return inputs[i] + r * step * width;
  }
  [[nodiscard]] __device__ Out* row_of_output(int r) const { return output + r * step * width; }
  /// Returns whether a column of the rows is one of the calling thread.
  [[nodiscard]] __device__ bool has(int column) const {
    return static_cast<unsigned>(column) / kVector % static_cast<unsigned>(columns.lanes) ==
           static_cast<unsigned>(columns.lane);
  }

  /// Loads the first widths[r] columns of each row r of input i. Columns behind them are `absent`,
  /// or undefined if they share a vector with others.
  __device__ void load(int i, int const (&widths)[Rows], In absent, Packed (&packed)[Rows]) const {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      packed[r].fill(absent);
      columns.for_each_vector(widths[r],
                              [&](int v, int column) { packed[r].load(v, input(i, r) + column); });
    }
  }
  /// Widens what load() has loaded.
  static __device__ void widen_to(float (&values)[Rows][Count], Packed const (&packed)[Rows]) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int k = 0; k < Count; ++k) {
        values[r][k] = packed[r].at(k / kVector, k % kVector);
      }
    }
  }
  /// Calls each(k, column) for the thread's columns of a row that are below `end`, a multiple of
  /// kVector.
  template <class Each>
  __device__ void for_each(int end, Each const& each) const {
    columns.for_each_vector(end, [&](int v, int column) {
#pragma unroll
      for (int c = 0; c < kVector; ++c) {
        each(v * kVector + c, column + c);
      }
    });
  }
  /// Stores result(r, k, column) as each column of the rows that exist.
  template <class Result>
  __device__ void store(Result const& result) const {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      columns.for_each_vector(exists(r) ? width : 0, [&](int v, int column) {
        Columns<kVector> results;
#pragma unroll
        for (int c = 0; c < kVector; ++c) {
          results.at[c] = result(r, v * kVector + c, column + c);
        }
        store_vector(row_of_output(r) + column, results);
      });
    }
  }
};

namespace detail {

/// The threads that a multiprocessor holds at once, which limits the registers per thread to 64, or
/// to 80 where a thread has many columns, or many addresses.
constexpr int threads_of_rows(int columns, bool has_many_addresses) {
  return columns > 16 || has_many_addresses ? 768 : 1024;
}

}  // namespace detail

/// Computes rows that begin at multiples of 16 bytes. A team has `Rows` rows at once, so that
/// enough loads are in flight.
template <class Function, class Team, int Count, int Rows>
__global__ void __launch_bounds__(Team::kMostThreads,
                                  detail::threads_of_rows(Count* Rows* Function::kInputs, false) /
                                      Team::kMostThreads)
    aligned_rows_kernel(__grid_constant__ Function const function, int log2_lanes) {
  Team team(log2_lanes);
  auto const width = static_cast<int>(function.columns());
  auto const row = static_cast<std::int64_t>(blockIdx.x) * (Rows * team.teams) + team.team;
  auto const at = start_of_row(row, width);
  RowsOfTeam<Function, Team, Count, Rows, true> of_team{
      {team.lane, team.lanes},
      width,
      team.teams,
      row,
      static_cast<int>(min(function.rows() - row, std::int64_t{Rows} * team.teams)),
      {},
      function.output() + at};
#pragma unroll
  for (int i = 0; i < Function::kInputs; ++i) {
    of_team.inputs[i] = function.input(i) + at;
  }
  function(team, of_team);
}

/// The shared memory in which a block has rows: the inputs, and the output in place of the first
/// input if their elements have one size.
template <class Function>
struct StagedRows {
  using In = typename Function::In;
  using Out = typename Function::Out;
  static constexpr bool kIsInPlace = sizeof(In) == sizeof(Out);

  /// Returns the bytes for `rows` rows of a width.
  [[nodiscard]] static std::size_t bytes(std::int64_t rows, std::int64_t width) {
    return Function::kInputs * staged_bytes<In>(rows * width) +
           (kIsInPlace ? 0 : staged_bytes<Out>(rows * width));
  }
};

/// Computes rows that begin at any element. A block has `rows_a_block` neighbouring rows, and
/// shared memory for them.
template <class Function, class Team, int Count>
__global__ void __launch_bounds__(Team::kMostThreads,
                                  detail::threads_of_rows(Count* Function::kInputs,
                                                          !Team::kIsBlock) /
                                      Team::kMostThreads)
    staged_rows_kernel(__grid_constant__ Function const function,
                       int log2_lanes,
                       int rows_a_block) {
  using In = typename Function::In;
  using Out = typename Function::Out;
  extern __shared__ uint4 shared[];
  auto const width = static_cast<int>(function.columns());
  auto const first = static_cast<std::int64_t>(blockIdx.x) * rows_a_block;
  auto const rows =
      static_cast<int>(min(function.rows() - first, static_cast<std::int64_t>(rows_a_block)));
  auto const at = start_of_row(first, width);
  int const count = rows * width;
  auto* memory = reinterpret_cast<std::byte*>(shared);
  In* inputs[Function::kInputs];
#pragma unroll
  for (int i = 0; i < Function::kInputs; ++i) {
    inputs[i] = staged_place<In>(memory, function.input(i) + at);
    stage(inputs[i], function.input(i) + at, count);
    memory += staged_bytes<In>(static_cast<std::int64_t>(rows_a_block) * width);
  }
  auto* const output = StagedRows<Function>::kIsInPlace
                           ? reinterpret_cast<Out*>(inputs[0])
                           : staged_place<Out>(memory, function.output() + at);
  wait_for_staged();
  Team team(log2_lanes);
  // The lanes of a warp have equally many turns, whether or not their rows exist.
  for (int turn = 0; turn < rows; turn += team.teams) {
    int const row = turn + team.team;
    RowsOfTeam<Function, Team, Count, 1, false> of_team{
        {team.lane, team.lanes}, width, 1, first + row, rows - row, {}, output + row * width};
#pragma unroll
    for (int i = 0; i < Function::kInputs; ++i) {
      of_team.inputs[i] = inputs[i] + row * width;
    }
    function(team, of_team);
  }
  store_staged(function.output() + at, output, count);
}

/// The most shared memory for rows of a block: 48 KiB, which need no permission, less 1 KiB for the
/// reductions of the block.
inline constexpr std::size_t kMostStagedBytes = std::size_t{47} << 10U;

/// Returns whether the rows of all inputs and of the output of a function begin at multiples of 16
/// bytes, or of as many elements.
template <class Function>
[[nodiscard]] bool rows_are_aligned(Function const& function) {
  return allows_whole_vectors<typename Function::In>(function.columns(),
                                                     function.input(0),
                                                     function.input(Function::kInputs - 1),
                                                     function.output());
}
/// Returns whether rows of a function can be computed in registers.
template <class Function>
[[nodiscard]] bool fits_registers(Function const& function) {
  return function.columns() <= kLongestRowInRegisters &&
         (rows_are_aligned(function) ||
          StagedRows<Function>::bytes(1, function.columns()) <= kMostStagedBytes);
}

namespace detail {

/// The blocks with which a launch occupies a GPU of 132 multiprocessors, two on each.
inline constexpr std::int64_t kBlocksForAll = 264;

/// Launches aligned_rows_kernel(). If there are few rows, its blocks have fewer lanes.
template <class Team, int Count, int Rows, class Function>
void launch_aligned(cudaStream_t stream, Function const& function) {
  TeamSizes sizes(function.columns(), Count, Team::kIsBlock);
  while (!Team::kIsBlock && sizes.threads > 32 &&
         ceil_div<std::int64_t>(function.rows(), Rows * sizes.teams) < kBlocksForAll) {
    sizes.halve();
  }
  aligned_rows_kernel<Function, Team, Count, Rows>
      <<<grid_for(function.rows(), Rows * sizes.teams), sizes.threads, 0, stream>>>(
          function, sizes.log2_lanes);
}

/// Launches staged_rows_kernel(). A block of lanes has about kBytes of rows, but fewer if there are
/// few rows.
template <class Team, int Count, class Function>
void launch_staged(cudaStream_t stream, Function const& function) {
  constexpr std::size_t kBytes = std::size_t{16} << 10U;
  auto const bytes_of = [&](std::int64_t rows) {
    return StagedRows<Function>::bytes(rows, function.columns());
  };
  TeamSizes sizes(function.columns(), Count, Team::kIsBlock);
  std::int64_t rows_a_block = 1;
  if constexpr (!Team::kIsBlock) {
    while (sizes.threads > 32 &&
           (bytes_of(sizes.teams) > kBytes ||
            ceil_div<std::int64_t>(function.rows(), sizes.teams) < kBlocksForAll)) {
      sizes.halve();
    }
    std::int64_t turns = 1;
    while (bytes_of(2 * turns * sizes.teams) <= kBytes &&
           ceil_div<std::int64_t>(function.rows(), 2 * turns * sizes.teams) >= kBlocksForAll) {
      turns *= 2;
    }
    rows_a_block = turns * sizes.teams;
  }
  staged_rows_kernel<Function, Team, Count>
      <<<grid_for(function.rows(), rows_a_block), sizes.threads, bytes_of(rows_a_block), stream>>>(
          function, sizes.log2_lanes, static_cast<int>(rows_a_block));
}

}  // namespace detail

/// Computes a function of rows for which fits_registers() holds. The caller checks the launch.
template <class Function>
void launch_in_registers(cudaStream_t stream, Function const& function) {
  constexpr int kHalves = 4 / static_cast<int>(sizeof(typename Function::In));
  // Whether a lane's registers have room for 32 columns of each input.
  constexpr bool kFitsWarp = Function::kInputs <= kHalves;
  auto const width = function.columns();
  if (!rows_are_aligned(function)) {
    if (width <= 256) {
      detail::launch_staged<LaneTeam, 8>(stream, function);
    } else if (width <= 512) {
      detail::launch_staged<LaneTeam, 16>(stream, function);
    } else {
      detail::launch_staged<BlockTeam<512>, 16>(stream, function);
    }
    return;
  }
  if (width <= 64) {
    detail::launch_aligned<LaneTeam, 8 * kHalves, 2>(stream, function);
    return;
  }
  if (width <= 512) {
    detail::launch_aligned<LaneTeam, 16, kHalves>(stream, function);
    return;
  }
  if constexpr (kFitsWarp) {
    if (width <= 1024) {
      detail::launch_aligned<LaneTeam, 32, 1>(stream, function);
      return;
    }
  }
  detail::launch_aligned<BlockTeam<512 / kHalves>, 16 * kHalves, 1>(stream, function);
}

}  // namespace msstream::ops::kernels
