// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "embedding/shard_column_math.hpp"
#include "embedding/shard_columns.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kColumnThreads = 256;
constexpr int kColumnRows = 4;  ///< rows that a thread has in flight
/// Blocks beyond which threads have further rows, for which they read the sources of their columns
/// only once.
constexpr std::int64_t kWantedColumnBlocks = 4096;
constexpr std::int64_t kMostRowBlocks = 65'535;

/// The division of a block among rows: a group of lanes, whose number is a power of two, has a tile
/// of columns, `count` ones a lane, of every groups()-th row.
struct ColumnTiles {
  int log2_lanes = 0;
  int count;

  ColumnTiles(std::int64_t columns, bool quads) : count(quads ? kColumnsOfQuad : 1) {
    while (log2_lanes < 5 && (std::int64_t{count} << log2_lanes) < columns) {
      ++log2_lanes;
    }
  }
  __host__ __device__ int lanes() const { return 1 << log2_lanes; }
  __host__ __device__ int groups() const { return kColumnThreads >> log2_lanes; }
  __host__ __device__ std::int64_t columns() const { return std::int64_t{count} << log2_lanes; }

  /// Returns a grid of tiles of columns and of rows, for each of some messages.
  [[nodiscard]] dim3 grid(std::int64_t all_columns,
                          std::int64_t rows,
                          std::int64_t messages) const {
    messages = std::min(messages, kMostRowBlocks);
    auto const tiles = ceil_div(all_columns, columns()) * messages;
    auto const most = ceil_div<std::int64_t>(rows, groups() * kColumnRows);
    auto const wanted = std::clamp<std::int64_t>(kWantedColumnBlocks / tiles, 1, kMostRowBlocks);
    // Equal numbers of rounds for all blocks.
    auto const blocks = ceil_div(most, ceil_div(most, wanted));
    return {grid_for(all_columns, columns()),
            static_cast<unsigned>(blocks),
            static_cast<unsigned>(messages)};
  }
  /// Calls each(row, rows) for the thread's rows below `count_of_rows`, kColumnRows at a time. The
  /// rows begin at `row`, groups() apart; `rows` has the last row in the place of others.
  template <class Each>
  __device__ void for_each_rows(std::int64_t count_of_rows, Each const& each) const {
    auto const step = std::int64_t{gridDim.y} * groups() * kColumnRows;
    for (auto row = std::int64_t{blockIdx.y} * groups() * kColumnRows + (threadIdx.x >> log2_lanes);
         row < count_of_rows;
         row += step) {
      std::int64_t rows[kColumnRows];
#pragma unroll
      for (int r = 0; r < kColumnRows; ++r) {
        rows[r] = min(row + r * groups(), count_of_rows - 1);
      }
      each(row, rows);
    }
  }
};

template <int Count, bool IsSplit>
__device__ void join_rows(JoinedColumnsArgs const& args,
                          ColumnTiles const& tiles,
                          std::int64_t column) {
  tiles.for_each_rows(args.rows, [&](std::int64_t row, std::int64_t const(&rows)[kColumnRows]) {
    NeighbourColumns<Count> sums[kColumnRows];
    joined_columns_of<IsSplit>(args, column, rows, sums);
#pragma unroll
    for (int r = 0; r < kColumnRows; ++r) {
      if (row + r * tiles.groups() < args.rows) {
        sums[r].store(args.output + rows[r] * args.columns + column);
      }
    }
  });
}

///   block: columns [tiles.columns() * blockIdx.x, + tiles.columns()), rows by for_each_rows()
///   thread: four neighbouring columns if all threads can access theirs by Quads (four floats);
///           otherwise every lanes()-th column
template <bool kQuads, bool kIsSplit>
__global__ void __launch_bounds__(kColumnThreads, kIsSplit ? 2 : 3)
    joined_columns_kernel(__grid_constant__ JoinedColumnsArgs const args, ColumnTiles const tiles) {
  auto const lane = static_cast<int>(threadIdx.x) & (tiles.lanes() - 1);
  auto const begin = std::int64_t{blockIdx.x} * tiles.columns();
  if constexpr (kQuads) {
    auto const column = begin + lane * kColumnsOfQuad;
    bool const exists = column < args.columns;
    // All groups of a block have the same columns.
    if (__all_sync(kAllLanes, !exists || is_joined_quad(args, column)) != 0) {
      if (exists) {
        join_rows<kColumnsOfQuad, kIsSplit>(args, tiles, column);
      }
      return;
    }
  }
  auto const end = min(begin + tiles.columns(), args.columns);
  for (auto column = begin + lane; column < end; column += tiles.lanes()) {
    join_rows<1, kIsSplit>(args, tiles, column);
  }
}

template <int Count>
__device__ void spread_rows(SpreadColumnsArgs const& args,
                            ColumnTiles const& tiles,
                            std::int64_t rank,
                            std::int64_t element) {
  auto* const message = args.messages + rank * args.stride;
  auto const width = args.widths[rank];
  tiles.for_each_rows(args.rows, [&](std::int64_t row, std::int64_t const(&rows)[kColumnRows]) {
    NeighbourColumns<Count> gradients[kColumnRows];
    spread_columns_of(args, rank, element, rows, gradients);
#pragma unroll
    for (int r = 0; r < kColumnRows; ++r) {
      if (row + r * tiles.groups() < args.rows) {
        gradients[r].store(message + rows[r] * width + element);
      }
    }
  });
}

/// Fills the part of a rank's message behind the rows of all samples.
__device__ void fill_rest(SpreadColumnsArgs const& args, std::int64_t rank) {
  auto const block = std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  auto const step = std::int64_t{gridDim.y} * gridDim.x * kColumnThreads;
  for (auto i = args.rows * args.widths[rank] + block * kColumnThreads + threadIdx.x;
       i < args.stride;
       i += step) {
    args.messages[rank * args.stride + i] = 0.0F;
  }
}

///   block: rank blockIdx.z, elements [tiles.columns() * blockIdx.x, + tiles.columns()) of its
///   rows,
///          and further ones if the grid has fewer, rows by for_each_rows()
///   thread: four neighbouring elements if all threads can access theirs by Quads (four floats);
///           otherwise every lanes()-th element
template <bool kQuads>
__global__ void __launch_bounds__(kColumnThreads, 3)
    spread_columns_kernel(__grid_constant__ SpreadColumnsArgs const args, ColumnTiles const tiles) {
  auto const lane = static_cast<int>(threadIdx.x) & (tiles.lanes() - 1);
  for (std::int64_t rank = blockIdx.z; rank < args.ranks; rank += gridDim.z) {
    auto const width = args.widths[rank];
    for (auto begin = std::int64_t{blockIdx.x} * tiles.columns(); begin < width;
         begin += std::int64_t{gridDim.x} * tiles.columns()) {
      if constexpr (kQuads) {
        auto const element = begin + lane * kColumnsOfQuad;
        bool const exists = element < width;
        // All groups of a block have the same elements.
        if (__all_sync(kAllLanes, !exists || is_spread_quad(args, rank, element)) != 0) {
          if (exists) {
            spread_rows<kColumnsOfQuad>(args, tiles, rank, element);
          }
          continue;
        }
      }
      auto const end = min(begin + tiles.columns(), width);
      for (auto element = begin + lane; element < end; element += tiles.lanes()) {
        spread_rows<1>(args, tiles, rank, element);
      }
    }
    fill_rest(args, rank);
  }
}

}  // namespace

void joined_columns(CudaStream stream, JoinedColumnsArgs const& args) {
  if (args.rows * args.columns > 0) {
    bool const quads = may_have_quads(args);
    ColumnTiles const tiles(args.columns, quads);
    bool const is_split = args.late != nullptr;
    auto* const kernel =
        quads
            ? (is_split ? joined_columns_kernel<true, true> : joined_columns_kernel<true, false>)
            : (is_split ? joined_columns_kernel<false, true> : joined_columns_kernel<false, false>);
    kernel<<<tiles.grid(args.columns, args.rows, 1), kColumnThreads, 0, stream>>>(args, tiles);
    check_launch("joined_columns");
  }
}

void spread_columns(CudaStream stream, SpreadColumnsArgs const& args) {
  if (args.ranks * args.stride > 0) {
    bool const quads = may_have_quads(args);
    // The widths are in device memory; no rank's rows are wider than the messages.
    auto const widest = ceil_div(args.stride, std::max<std::int64_t>(args.most_bags, 1));
    ColumnTiles const tiles(widest, quads);
    auto const grid = tiles.grid(widest, std::max<std::int64_t>(args.rows, 1), args.ranks);
    auto* const kernel = quads ? spread_columns_kernel<true> : spread_columns_kernel<false>;
    kernel<<<grid, kColumnThreads, 0, stream>>>(args, tiles);
    check_launch("spread_columns");
  }
}

}  // namespace msstream::ops::kernels
