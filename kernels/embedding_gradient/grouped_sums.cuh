// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/workspace_layout.hpp"
#include "embedding_gradient/grouped_borders.cuh"
#include "embedding_gradient/grouped_places.cuh"
#include "embedding_gradient/place_source.cuh"
#include "embedding_gradient/row_sinks.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

// Sums of rows that are grouped by rank; equal arguments give equal bits. Sorted positions are cut
// into parts of equal length, one group of lanes each:
//
//   ranks  0 0 0 1 | 1 1 1 1 | 1 2 3 3        part 0 finishes row 0, part 2 rows 2 and 3
//   part      0    |    1    |    2           row 1: tails of 0 and 1 + head of 2
//
// A part finishes the rows whose positions it contains completely. Its sum of a row that continues
// in the next part is its tail; its sum of a row that began in an earlier part and ends in this one
// is its head. For each row that ends in a later part than it began in, a second launch adds the
// tails and the head. If all parts of a block belong to one row, the block adds its tails first.
//
// A sink (embedding_gradient/row_sinks.cuh) processes each finished row.

/// The partial sums of rows whose sorted positions lie in several parts; a second launch adds them.
struct GroupedBorders {
  float* tails;  ///< [parts, width]
  float* heads;  ///< [parts, width]

  GroupedBorders(WorkspaceLayout& workspace, std::int64_t capacity, std::int64_t width) {
    auto const elements = PartsOfPlaces(capacity, width).parts * width;
    tails = workspace.take<float>(elements);
    heads = workspace.take<float>(elements);
  }
};

/// Adds four columns of the rows at the sorted positions of one part, and finishes each row that
/// ends in the part. Returns whether the last row continues after the part; if it does, `sum` is
/// the part's sum of that row.
template <class Rows, class Sink>
__device__ bool sum_part(GroupedPlaces const& places,
                         PlaceSource const& source,
                         Rows const& rows,
                         Sink const& sink,
                         typename Sink::Step const& step,
                         RowLanes const& shape,
                         PartOfPlaces const& part,
                         std::int64_t column,
                         float* heads,
                         Columns<4>& sum) {
  constexpr int kInFlight = Sink::kInFlight;
  StagedPlaces const staged(shape);
  auto const lanes = lanes_of_group(shape);
  bool is_head = part.has_head;
  for (auto first = part.begin; first < part.end; first += staged.count) {
    __syncwarp(lanes);  // all lanes have used the previous positions
    for (auto i = static_cast<std::uint32_t>(shape.lane()); i < staged.count; i += shape.lanes()) {
      staged.places[i] = first + i < part.end ? stage_place<Rows>(places, source, sink, first + i)
                                              : StagedPlace{-1, 0, -1};
    }
    __syncwarp(lanes);
    auto const count = min(staged.count, part.end - first);
    for (std::uint32_t next = 0; next < count; next += kInFlight) {
      auto const* const now = staged.places + next;
      typename Rows::Loaded requested[kInFlight];
      typename Sink::Ahead ahead[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        requested[k] = rows.load(now[k].row, now[k].detail, column);
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (auto const target = now[k].target_again(); target >= 0) {
          ahead[k].load(sink, target, column);
        }
      }
      Columns<4> loaded[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        loaded[k] = rows.widened(requested[k]);
      }
      if (!Rows::kIsMax && source.factors != nullptr) {
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) {
          loaded[k].multiply(__int_as_float(now[k].detail));
        }
      }
      float squares[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        sum.add(loaded[k]);
        loaded[k] = sum;
        if (now[k].target_again() >= 0) {
          sum = Columns<4>{};
        }
      }
      sink.squares(step, ahead, loaded, squares, shape);
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (auto const target = now[k].target_again(); target >= 0) {
          if (is_head) {
            store_four<Sink::kIsWhole>(
                heads + part.part * shape.width, column, shape.width, packed(loaded[k]));
          } else {
            sink.finish(step, ahead[k], target, column, loaded[k], squares[k], shape.width);
          }
          is_head = false;
        }
      }
    }
  }
  return part.end < places.capacity && PartOfPlaces::goes_on(places, part.end);
}

/// Adds the sums of the groups of lanes of a block, in the order of the groups, and returns the
/// result to the first group. All threads of the block must call sum_of_groups() together.
__device__ inline Columns<4> sum_of_groups(Columns<4> const& mine, RowLanes const& shape) {
  __shared__ float4 columns[kGroupedThreads];
  __syncthreads();
  columns[threadIdx.x] = make_float4(mine.at[0], mine.at[1], mine.at[2], mine.at[3]);
  __syncthreads();
  double sums[4] = {};
  if (static_cast<int>(threadIdx.x) < shape.lanes()) {
    for (auto other = threadIdx.x; other < blockDim.x; other += shape.lanes()) {
      auto const four = columns[other];
      sums[0] += four.x;
      sums[1] += four.y;
      sums[2] += four.z;
      sums[3] += four.w;
    }
  }
  Columns<4> sum;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    sum.at[c] = static_cast<float>(sums[c]);
  }
  return sum;
}

/// Sums the rows of one part of the sorted positions per group of lanes.
template <class Rows, class Sink>
__global__ void __launch_bounds__(kGroupedThreads, Rows::kIsMax ? 2 : Sink::kBlocks)
    grouped_parts_kernel(__grid_constant__ GroupedPlaces const places,
                         __grid_constant__ PlaceSource const source,
                         __grid_constant__ Rows const rows,
                         __grid_constant__ Sink const sink,
                         RowLanes const shape,
                         PartsOfPlaces const parts,
                         float* tails,
                         float* heads) {
  auto const block_part = blockIdx.x * parts.a_block;
  auto const block_begin = block_part * parts.places;
  auto const block_end = block_begin + parts.a_block * parts.places;
  bool const is_one_row = block_end < places.capacity && places.ranks[block_begin] >= 0 &&
                          places.ranks[block_begin] == places.ranks[block_end];
  PartOfPlaces const part(places, parts, grid_thread() >> shape.log2_lanes);
  if (part.begin >= part.end || places.ranks[part.begin] < 0) {
    return;  // does not happen if one row covers the block
  }
  auto const step = sink.step();
  std::int64_t const columns = shape.lanes() * 4;
  for (auto base = blockIdx.y * columns; base < shape.width; base += gridDim.y * columns) {
    auto const column = base + shape.lane() * 4;
    Columns<4> sum;
    bool has_tail = sum_part(places, source, rows, sink, step, shape, part, column, heads, sum);
    if (is_one_row) {
      sum = sum_of_groups(sum, shape);
      has_tail = part.part == block_part;
    }
    if (has_tail) {
      store_four<Sink::kIsWhole>(tails + part.part * shape.width, column, shape.width, packed(sum));
    }
  }
}

/// Returns the number of passes over all positions, each for a share of the columns, so that rows
/// that are read repeatedly stay in the L2 cache. The sums do not depend on the number of passes.
/// Two passes are used only if half a warp then holds a row's columns: a block of half the threads
/// then has as many parts.
template <class Rows, class Sink>
int column_turns(std::int64_t width, std::int64_t row_count) {
  constexpr std::int64_t kKept = std::int64_t{24} << 20U;
  auto const bytes = row_count * width * Rows::kBytesAColumn;
  bool const can_cut = !Sink::kNeedsWholeRows && RowLanes(width, 8).lanes() == 16;
  return can_cut && bytes > kKept && bytes <= 2 * kKept ? 2 : 1;
}

/// Sums the rows of each rank and passes the sums to the sink. At most `row_count` different rows
/// are added, most of them several times.
template <class Rows, class Sink>
void launch_grouped_sums(CudaStream stream,
                         GroupedPlaces const& places,
                         PlaceSource const& source,
                         Rows const& rows,
                         std::int64_t row_count,
                         Sink const& sink,
                         std::int64_t width,
                         GroupedBorders const& borders) {
  PartsOfPlaces const parts(places.capacity, width);
  auto const turns = column_turns<Rows, Sink>(width, row_count);
  // With more passes there are fewer lanes per part, and as many parts per block.
  RowLanes const shape(width, 4 * turns);
  dim3 const grid(grid_for(parts.parts, parts.a_block), static_cast<unsigned>(turns));
  grouped_parts_kernel<<<grid,
                         kGroupedThreads / turns,
                         StagedPlaces::bytes_a_block(shape),
                         stream>>>(
      places, source, rows, sink, shape, parts, borders.tails, borders.heads);
  check_launch("grouped sums, parts");
  RowLanes const whole_rows(width, 4);
  dim3 const borders_grid(grid_for(parts.parts, kBordersABlock),
                          Sink::kNeedsWholeRows ? 1U : column_shares(whole_rows));
  grouped_borders_kernel<<<borders_grid, kGroupedThreads, 0, stream>>>(
      places, sink, whole_rows, parts, borders.tails, borders.heads);
  check_launch("grouped sums, borders");
}

}  // namespace msstream::ops::kernels
