// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/grouped_places.cuh"
#include "embedding_gradient/grouped_ranges.cuh"
#include "embedding_gradient/row_sinks.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// The locations of the partial sums (tails) of a row that began in part `first` and ends in part
/// `last`: one tail per part, but only one per block of parts if the row covers the whole block.
struct TailsOfRow {
  std::uint32_t first;
  std::uint32_t leading;  ///< the number of single parts, which come first
  std::uint32_t blocks;   ///< the number of whole blocks, which follow
  std::uint32_t a_block;
  std::uint32_t count;

  __device__ TailsOfRow(std::uint32_t start, std::uint32_t last, PartsOfPlaces const& parts)
      : first(start / static_cast<std::uint32_t>(parts.places)),
        a_block(static_cast<std::uint32_t>(parts.a_block)) {
    auto const of_block = static_cast<std::uint32_t>(parts.places) * a_block;
    auto const block = (start + of_block - 1) / of_block;
    auto const block_end = last / a_block;
    blocks = block_end > block ? block_end - block : 0;
    leading = blocks > 0 ? block * a_block - first : last - first;
    count = blocks > 0 ? leading + blocks + (last - block_end * a_block) : leading;
  }
  __device__ std::uint32_t part_of(std::uint32_t i) const {
    if (i < leading) {
      return first + i;
    }
    auto const behind = i - leading;
    return first + leading +
           (behind < blocks ? behind * a_block : blocks * a_block + (behind - blocks));
  }
};

inline constexpr int kBordersABlock = 32;  ///< lane l of every warp checks part l of the block

/// Completes rows whose sorted positions lie in several parts. One lane per part checks whether a
/// row ends in the part that began in an earlier part. The warps take such rows in turn, and add
/// the partial sums of the earlier parts (tails) and of the row's last part (head). Blocks along
/// the grid's y dimension share the columns, if there is more than one. No other warp finishes
/// these columns of the row.
template <class Sink>
__global__ void __launch_bounds__(kGroupedThreads)
    grouped_borders_kernel(__grid_constant__ GroupedPlaces const places,
                           __grid_constant__ Sink const sink,
                           RowLanes const shape,
                           PartsOfPlaces const parts,
                           float const* tails,
                           float const* heads) {
  static_assert(kBordersABlock == 32);
  int const warp = static_cast<int>(threadIdx.x) / 32;
  PartOfPlaces const part(
      places, parts, std::int64_t{blockIdx.x} * kBordersABlock + threadIdx.x % 32);
  std::int32_t const rank = part.has_head ? places.ranks[part.begin] : -1;
  bool const ends = rank >= 0 && (part.end == places.capacity || places.ranks[part.end] != rank);
  std::int32_t const start = ends ? places.starts[rank] : 0;
  unsigned const found = __ballot_sync(kAllLanes, ends);
  auto const step = sink.step();
  auto const columns = columns_of_block(shape);
  for (int turn = 0; turn < __popc(found); turn += kGroupedWarps) {
    int const owner = static_cast<int>(__fns(found, 0, turn + warp + 1)) & 31;
    bool const exists = turn + warp < __popc(found);
    auto const last = __shfl_sync(kAllLanes, part.part, owner);
    auto const since = __shfl_sync(kAllLanes, start, owner);
    WarpRange const mine{{0, exists ? TailsOfRow(since, last, parts).count + std::int64_t{1} : 0},
                         __shfl_sync(kAllLanes, rank, owner),
                         since,
                         last,
                         exists};
    sum_ranges(
        mine,
        columns,
        shape,
        [&](WarpRange const& range) {
          TailsOfRow const row(static_cast<std::uint32_t>(range.start),
                               static_cast<std::uint32_t>(range.part),
                               parts);
          auto const* const head = heads + range.part * shape.width;
          return [=, &shape](std::int64_t i, std::int64_t column) {
            auto const at = static_cast<std::uint32_t>(i);
            Pack<float, 4> four{};
            load_four<Sink::kIsWhole>(
                at == row.count ? head : tails + row.part_of(at) * shape.width,
                column,
                shape.width,
                four);
            return unpacked(four);
          };
        },
        [&](WarpRange const& range, std::int64_t column, Columns<4> const& sum) {
          auto const target = sink.target_of(static_cast<std::int32_t>(range.rank));
          typename Sink::Ahead ahead[1];
          ahead[0].load(sink, target, column);
          Columns<4> const sums[] = {sum};
          float squares[1];
          sink.squares(step, ahead, sums, squares, shape);
          sink.finish(step, ahead[0], target, column, sum, squares[0], shape.width);
        });
    __syncthreads();  // all threads have read the shared ranges
  }
}

}  // namespace msstream::ops::kernels
