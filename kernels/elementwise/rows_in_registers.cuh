// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "elementwise/row_columns.cuh"
#include "elementwise/row_team.cuh"
#include "elementwise/staged_elements.cuh"

#include <algorithm>
#include <bit>
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
///   width         up to 4       512            8,192
///   team          a lane        lanes          a block
///   columns each  4             8, 12 or 16    12 or 16
///
/// The number of columns each is the one that leaves the fewest threads without a column. Lanes of
/// a warp that have different rows have rows whose columns lie in different banks of the memory.
/// A block that shares a row copies the next one meanwhile, or if that does not pay has a single
/// row and 16 columns each (has_pipeline()).
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
///   static constexpr bool kTakesManyRegisters
///                                         only where it is true: a thread with 16 columns of a row
///                                         in shared memory takes more than 64 registers
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
template <class Function>
constexpr bool takes_many_registers() {
  return requires {
    Function::kTakesManyRegisters;
  };
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

/// Computes rows that begin at any element. A block has batches of neighbouring rows, and shared
/// memory for one of them, or for two if it has several.
template <class Function, class Team, int Count>
__global__ void __launch_bounds__(Team::kMostThreads,
                                  detail::threads_of_rows(Count* Function::kInputs,
                                                          !Team::kIsBlock) /
                                      Team::kMostThreads)
    staged_rows_kernel(__grid_constant__ Function const function,
                       __grid_constant__ StagedDivision const division) {
  extern __shared__ uint4 shared[];
  auto const width = static_cast<int>(function.columns());
  auto const batch_at = [&](int number) {
    return StagedBatch<Function>(function, division, width, number, shared);
  };
  Team team(division.log2_lanes);
  int const turns = division.rows_a_batch / team.teams;
  batch_at(0).begin();
  __pipeline_commit();
#pragma unroll 1
  for (int number = 0; number < division.batches; ++number) {
    if (number + 1 < division.batches) {
      batch_at(number + 1).begin();
    }
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    StagedBatch<Function> const batch = batch_at(number);
    // The lanes of a warp have equally many turns, whether or not their rows exist.
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
      int const run = (turn >> division.log2_run) * team.teams + team.team;
      int const row = (run << division.log2_run) + (turn & ((1 << division.log2_run) - 1));
      RowsOfTeam<Function, Team, Count, 1, false> of_team{{team.lane, team.lanes},
                                                          width,
                                                          1,
                                                          batch.first + row,
                                                          batch.rows - row,
                                                          {},
                                                          batch.output + row * width};
#pragma unroll
      for (int i = 0; i < Function::kInputs; ++i) {
        of_team.inputs[i] = batch.inputs[i] + row * width;
      }
      function(team, of_team);
    }
    store_staged(batch.to, batch.output, batch.count);
    if (number + 1 < division.batches) {
      __syncthreads();  // the copy of the next batch but one overwrites this one
    }
  }
}

/// Computes a row that begins at any element. A block has one row, and shared memory for it.
template <class Function, class Team, int Count>
__global__ void __launch_bounds__(Team::kMostThreads,
                                  detail::takes_many_registers<Function>() ? 1 : 2)
    staged_row_kernel(__grid_constant__ Function const function) {
  static_assert(Team::kIsBlock);
  extern __shared__ uint4 shared[];
  auto const width = static_cast<int>(function.columns());
  StagedBatch<Function> const batch(function, StagedDivision{}, width, 0, shared);
  batch.begin();
  wait_for_staged();
  Team team(0);
  // A loop over the one row takes fewer registers than its body alone.
#pragma unroll 1
  for (int row = 0; row < batch.rows; ++row) {
    RowsOfTeam<Function, Team, Count, 1, false> of_team{{team.lane, team.lanes},
                                                        width,
                                                        1,
                                                        batch.first + row,
                                                        batch.rows - row,
                                                        {},
                                                        batch.output + row * width};
#pragma unroll
    for (int i = 0; i < Function::kInputs; ++i) {
      of_team.inputs[i] = batch.inputs[i] + row * width;
    }
    function(team, of_team);
  }
  store_staged(batch.to, batch.output, width);
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
/// few rows. A block that shares a row, for which has_pipeline() holds, has several of them, of
/// which it copies one while it computes another.
template <class Team, int Count, class Function>
void launch_staged(cudaStream_t stream, Function const& function) {
  constexpr std::size_t kBytes = std::size_t{17} << 10U;
  constexpr std::int64_t kEnoughBlocks = 4 * kBlocksForAll;
  constexpr std::int64_t kMostBatches = 8;
  auto const width = function.columns();
  auto const bytes_of = [&](std::int64_t rows) { return StagedRows<Function>::bytes(rows, width); };
  TeamSizes sizes(width, Count, Team::kIsBlock);
  StagedDivision division{.log2_lanes = sizes.log2_lanes};
  auto bytes = bytes_of(1);
  if constexpr (Team::kIsBlock) {
    division.batches = static_cast<int>(
        std::clamp<std::int64_t>(function.rows() / (2 * kEnoughBlocks), 1, kMostBatches));
    bytes *= division.batches > 1 ? 2 : 1;
  } else {
    constexpr int kThreads = 64;
    while (sizes.threads > 32 &&
           (sizes.threads > kThreads || bytes_of(sizes.teams) > kBytes ||
            ceil_div<std::int64_t>(function.rows(), sizes.teams) < kBlocksForAll)) {
      sizes.halve();
    }
    int log2_turns = 0;
    auto const rows_of = [&](int log2) { return std::int64_t{sizes.teams} << log2; };
    while (bytes_of(rows_of(log2_turns + 1)) <= kBytes &&
           ceil_div(function.rows(), rows_of(log2_turns + 1)) >= kEnoughBlocks) {
      ++log2_turns;
    }
    // Runs of this length begin in different banks.
    int const log2_distinct =
        sizes.log2_lanes - std::countr_zero(static_cast<std::uint64_t>(width));
    division.log2_run = std::clamp(log2_distinct, 0, log2_turns);
    division.rows_a_batch = static_cast<int>(rows_of(log2_turns));
    bytes = bytes_of(division.rows_a_batch);
  }
  staged_rows_kernel<Function, Team, Count>
      <<<grid_for(function.rows(), std::int64_t{division.rows_a_batch} * division.batches),
         sizes.threads,
         bytes,
         stream>>>(function, division);
}

/// Launches staged_row_kernel().
template <int Count, class Function>
void launch_staged_row(cudaStream_t stream, Function const& function) {
  using Team = BlockTeam<512>;
  TeamSizes const sizes(function.columns(), Count, Team::kIsBlock);
  staged_row_kernel<Function, Team, Count><<<grid_for(function.rows(), 1),
                                             sizes.threads,
                                             StagedRows<Function>::bytes(1, function.columns()),
                                             stream>>>(function);
}

/// Returns whether a block that shares a row copies the next one while it computes this one. Not if
/// it would wait for single halves, which are not copied asynchronously, or if two rows do not fit
/// the shared memory. Two inputs take so many registers that a multiprocessor holds few such
/// blocks, which pays only for the shortest rows.
template <class Function>
[[nodiscard]] bool has_pipeline(Function const& function) {
  if constexpr (sizeof(typename Function::In) < sizeof(float)) {
    return false;
  } else if constexpr (Function::kInputs > 1) {
    constexpr std::int64_t kWidest = 640;
    return function.columns() <= kWidest;
  } else {
    return 2 * StagedRows<Function>::bytes(1, function.columns()) <= kMostStagedBytes;
  }
}

/// The threads of a block, at most 512, have 12 columns of a row each, unless fewer of them are
/// without a column if they have 16.
inline bool has_blocks_of_12(std::int64_t width) {
  return width <= 512 * 12 &&
         ceil_div<std::int64_t>(width, 12 * 32) * 12 <= ceil_div<std::int64_t>(width, 16 * 32) * 16;
}

}  // namespace detail

/// The widest row that begins at any element and is shared by lanes of a warp.
inline constexpr std::int64_t kWidestStagedRowOfLanes = 512;

/// Computes a function of rows of up to kWidestStagedRowOfLanes columns that begin at any element.
/// The caller checks the launch.
template <class Function>
void launch_staged_lanes(cudaStream_t stream, Function const& function) {
  auto const width = static_cast<std::uint64_t>(function.columns());
  if (width <= 4) {
    detail::launch_staged<LaneTeam, 4>(stream, function);
  } else if (width > 8 && 4 * width <= 3 * std::bit_ceil(width)) {
    detail::launch_staged<LaneTeam, 12>(stream, function);
  } else if (width <= 256) {
    detail::launch_staged<LaneTeam, 8>(stream, function);
  } else {
    detail::launch_staged<LaneTeam, 16>(stream, function);
  }
}
/// Computes a function of wider rows that begin at any element and for which fits_registers()
/// holds. The caller checks the launch.
template <class Function>
void launch_staged_blocks(cudaStream_t stream, Function const& function) {
  if constexpr (sizeof(typename Function::In) >= sizeof(float)) {
    if (detail::has_pipeline(function)) {
      if constexpr (Function::kInputs == 1) {
        if (!detail::has_blocks_of_12(function.columns())) {
          detail::launch_staged<BlockTeam<512>, 16>(stream, function);
          return;
        }
      }
      detail::launch_staged<BlockTeam<512>, 12>(stream, function);
      return;
    }
  }
  detail::launch_staged_row<16>(stream, function);
}

/// Computes a function of rows for which fits_registers() holds. The caller checks the launch.
template <class Function>
void launch_in_registers(cudaStream_t stream, Function const& function) {
  constexpr int kHalves = 4 / static_cast<int>(sizeof(typename Function::In));
  // Whether a lane's registers have room for 32 columns of each input.
  constexpr bool kFitsWarp = Function::kInputs <= kHalves;
  auto const width = function.columns();
  if (!rows_are_aligned(function)) {
    if (width <= kWidestStagedRowOfLanes) {
      launch_staged_lanes(stream, function);
    } else {
      launch_staged_blocks(stream, function);
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
