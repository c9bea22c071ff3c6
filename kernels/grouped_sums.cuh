// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_check.cuh"
#include "grouped_ranges.cuh"
#include "optimizer_rows.cuh"
#include "place_source.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

// Sums of rows that are grouped by rank, the same bits for the same arguments. Sorted places are
// cut into parts of equal length, a group of lanes each:
//
//   ranks  0 0 0 1 | 1 1 1 1 | 1 2 3 3        part 0 finishes row 0, part 2 rows 2 and 3
//   part      0    |    1    |    2           row 1: tails of 0 and 1 + head of 2
//
// A part finishes the rows whose places it has all. What it has of a row that goes on behind it is
// its tail, what it has of a row that began before it and ends in it its head; a second launch adds
// them where a row ends. Where all parts of a block are of one row, the block adds its tails.
//
// What becomes of a finished row is up to a sink: it is stored, or it moves a row of a table.

/// The places to add, sorted by rank; both arrays are 16-byte aligned.
struct GroupedPlaces {
  std::int32_t const* ranks;      ///< [capacity]: which sum a place adds to; ascending, then -1
  std::int32_t const* positions;  ///< [capacity]: the place
  std::int32_t const* starts;     ///< where each rank begins
  std::int64_t capacity;
};

/// Equal parts of the places, so many that they fill a large GPU; depends on the capacity and the
/// width alone.
struct PartsOfPlaces {
  std::int64_t places;
  std::int64_t parts;
  std::int64_t a_block;  ///< parts a block

  PartsOfPlaces(std::int64_t capacity, std::int64_t width)
      : places(std::clamp<std::int64_t>(ceil_div(capacity, kParts * kStep) * kStep, kStep, 256)),
        parts(ceil_div(capacity, places)),
        a_block(kGroupedThreads / RowLanes(width, 4).lanes()) {}

 private:
  static constexpr std::int64_t kParts = 16'384;
  static constexpr std::int64_t kStep = 16;  ///< a multiple of what sinks have in flight
};

/// Tails and heads of all parts.
inline std::size_t grouped_sums_workspace_bytes(std::int64_t capacity, std::int64_t width) {
  return 2 * static_cast<std::size_t>(PartsOfPlaces(capacity, width).parts) *
         static_cast<std::size_t>(width) * sizeof(float);
}

/// A sink that stores sums; those of rank r are row r.
template <bool IsWhole>
struct StoreSums {
  static constexpr int kInFlight = 8;
  static constexpr bool kIsWhole = IsWhole;
  /// Of parts on a multiprocessor at least: what the registers allow without spilling.
  static constexpr int kBlocks = IsWhole ? 3 : 2;
  float* sums;

  struct Step {};
  struct Target {};
  struct Ahead {
    __device__ void load(StoreSums const&, Target, std::int64_t) {}
  };
  __device__ Step step() const { return {}; }
  __device__ Target target_of(bool, std::int32_t) const { return {}; }
  __device__ void finish(Step const&,
                         Ahead&,
                         Target,
                         std::int32_t rank,
                         std::int64_t column,
                         Columns<4> const& sum,
                         RowLanes const& shape) const {
    float* const to = sums + rank * shape.width;
    if constexpr (IsWhole) {
      if (column < shape.width) {  // written once, and not read soon
        __stcs(reinterpret_cast<float4*>(to + column),
               make_float4(sum.at[0], sum.at[1], sum.at[2], sum.at[3]));
      }
    } else {
      store_four<false>(to, column, shape.width, packed(sum));
    }
  }
};

/// A sink that moves the rows of a table by the sums, which are then written nowhere.
template <OptimizerKind Kind, class Weight, bool IsWhole>
struct MoveRows {
  static constexpr int kInFlight = 4;
  static constexpr bool kIsWhole = IsWhole;
  static constexpr int kBlocks = Kind == OptimizerKind::sgd ? 3 : 2;
  DeviceTable<Weight> table;
  std::int64_t const* ids;  ///< of each rank
  OptimizerRule rule;
  StepState const* state;

  using Step = StepRule;
  using Target = std::int64_t;  ///< a row of the table
  struct Ahead {
    RowInMotion<Kind, Weight, IsWhole> columns;
    __device__ void load(MoveRows const& sink, Target row, std::int64_t column) {
      columns.load(sink.table, row, column);
    }
  };
  __device__ Step step() const { return rule_of_step<Kind>(rule, state); }
  __device__ Target target_of(bool is_wanted, std::int32_t rank) const {
    return is_wanted ? __ldg(ids + rank) : 0;
  }
  __device__ void finish(Step const& step,
                         Ahead& ahead,
                         Target row,
                         std::int32_t,
                         std::int64_t column,
                         Columns<4> const& sum,
                         RowLanes const& shape) const {
    ahead.columns.move_columns(step, sum, shape);
    ahead.columns.store(table, row, column);
  }
};

/// `Count` neighbouring numbers from a 16-byte aligned place; -1 from `end` on.
template <int Count>
__device__ void load_numbers(std::int32_t const* from,
                             std::uint32_t first,
                             std::uint32_t end,
                             std::int32_t (&numbers)[Count]) {
  static_assert(Count % 4 == 0);
  if (first + Count <= end) {
#pragma unroll
    for (int k = 0; k < Count; k += 4) {
      auto const four = __ldg(reinterpret_cast<int4 const*>(from + first + k));
      numbers[k] = four.x;
      numbers[k + 1] = four.y;
      numbers[k + 2] = four.z;
      numbers[k + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int k = 0; k < Count; ++k) {
      numbers[k] = first + k < end ? __ldg(from + first + k) : -1;
    }
  }
}

/// The places of one part, and whether its first row began before it. There are fewer than 2^31.
struct PartOfPlaces {
  std::uint32_t part;
  std::uint32_t begin;
  std::uint32_t end;
  bool has_head;

  __device__ PartOfPlaces(GroupedPlaces const& places,
                          PartsOfPlaces const& parts,
                          std::int64_t number)
      : part(static_cast<std::uint32_t>(number)),
        begin(static_cast<std::uint32_t>(min(number * parts.places, places.capacity))),
        end(static_cast<std::uint32_t>(min((number + 1) * parts.places, places.capacity))),
        has_head(begin > 0 && begin < end && goes_on(places, begin)) {}

  /// Whether a row has places on both sides of a border.
  static __device__ bool goes_on(GroupedPlaces const& places, std::uint32_t border) {
    return places.ranks[border] >= 0 && places.ranks[border - 1] == places.ranks[border];
  }
};

/// Adds four columns of a part's places and finishes its rows. Returns whether the last row goes on
/// behind the part; `sum` is then what the part has of it.
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
  auto const capacity = static_cast<std::uint32_t>(places.capacity);
  bool is_head = part.has_head;
  bool goes_on = false;
  for (auto first = part.begin; first < part.end; first += kInFlight) {
    std::int32_t ranks[kInFlight];
    std::int32_t positions[kInFlight];
    load_numbers(places.ranks, first, capacity, ranks);
    load_numbers(places.positions, first, capacity, positions);
    auto const behind = first + kInFlight;
    auto const rank_behind = behind < capacity ? __ldg(places.ranks + behind) : -1;

    Columns<4> loaded[kInFlight];
    bool ends[kInFlight];
    typename Sink::Target targets[kInFlight];
    typename Sink::Ahead ahead[kInFlight];
    std::int32_t rows_read[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      rows_read[k] = ranks[k] >= 0 ? source.row_of(positions[k]) : -1;
      ends[k] = ranks[k] >= 0 && ranks[k] != (k + 1 < kInFlight ? ranks[k + 1] : rank_behind);
      targets[k] = sink.target_of(ends[k], ranks[k]);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      loaded[k] = rows.load(rows_read[k], positions[k], column);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (ends[k]) {
        ahead[k].load(sink, targets[k], column);
      }
    }
    if (source.factors != nullptr) {
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        // Places that add nothing stay 0, whatever their factor.
        loaded[k].multiply(rows_read[k] >= 0 ? source.factor_of(positions[k]) : 0.0F);
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      sum.add(loaded[k]);
      if (ends[k]) {
        if (is_head) {
          store_four<Sink::kIsWhole>(
              heads + part.part * shape.width, column, shape.width, packed(sum));
        } else {
          sink.finish(step, ahead[k], targets[k], ranks[k], column, sum, shape);
        }
        is_head = false;
        sum = Columns<4>{};
      }
    }
    goes_on = ranks[kInFlight - 1] >= 0 && ranks[kInFlight - 1] == rank_behind;
  }
  return goes_on;
}

/// The sum over the groups of lanes of a block, in their order; the first group gets it. To be
/// called by all threads of the block.
__device__ inline Columns<4> sum_of_groups(Columns<4> const& mine, RowLanes const& shape) {
  __shared__ float4 columns[kGroupedThreads];
  __syncthreads();
  columns[threadIdx.x] = make_float4(mine.at[0], mine.at[1], mine.at[2], mine.at[3]);
  __syncthreads();
  Columns<4> sum;
  if (static_cast<int>(threadIdx.x) < shape.lanes()) {
    for (int other = static_cast<int>(threadIdx.x); other < kGroupedThreads;
         other += shape.lanes()) {
      auto const four = columns[other];
      sum.add({{four.x, four.y, four.z, four.w}});
    }
  }
  return sum;
}

/// A group of lanes a part.
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
    return;  // no block of one row
  }
  auto const step = sink.step();
  for (std::int64_t base = 0; base < shape.width; base += shape.lanes() * 4) {
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

/// Where the tails of a row are that began in part `first` and ends in part `last`: one a part, but
/// one a block of parts where it has the whole block.
struct TailsOfRow {
  std::int64_t first;
  std::int64_t leading;  ///< so many single parts, then
  std::int64_t blocks;   ///< so many blocks
  std::int64_t a_block;
  std::int64_t count;

  __device__ TailsOfRow(std::int64_t start, std::int64_t last, PartsOfPlaces const& parts)
      : first(start / parts.places), a_block(parts.a_block) {
    auto const block = ceil_div(start, parts.places * parts.a_block);
    auto const block_end = last / parts.a_block;
    blocks = max(block_end - block, std::int64_t{0});
    leading = blocks > 0 ? block * a_block - first : last - first;
    count = blocks > 0 ? leading + blocks + (last - block_end * a_block) : leading;
  }
  __device__ std::int64_t part_of(std::int64_t i) const {
    if (i < leading) {
      return first + i;
    }
    auto const behind = i - leading;
    return first + leading +
           (behind < blocks ? behind * a_block : blocks * a_block + (behind - blocks));
  }
};

/// A warp a part: where a row ends that began in an earlier part, the tails since then and this
/// part's head are added. No other warp finishes that row.
template <class Sink>
__global__ void __launch_bounds__(kGroupedThreads)
    grouped_borders_kernel(__grid_constant__ GroupedPlaces const places,
                           __grid_constant__ Sink const sink,
                           RowLanes const shape,
                           PartsOfPlaces const parts,
                           float const* tails,
                           float const* heads) {
  PartOfPlaces const part(
      places, parts, std::int64_t{blockIdx.x} * kGroupedWarps + threadIdx.x / 32);
  WarpRange mine{{0, 0}, 0, 0, 0, false};
  if (part.has_head) {
    auto const rank = places.ranks[part.begin];
    bool const ends = part.end == places.capacity || places.ranks[part.end] != rank;
    if (ends) {
      std::int64_t const start = places.starts[rank];
      mine = {{0, TailsOfRow(start, part.part, parts).count + 1}, rank, start, part.part, true};
    }
  }
  auto const step = sink.step();
  sum_ranges(
      mine,
      shape,
      [&](WarpRange const& range, std::int64_t i, std::int64_t column) {
        TailsOfRow const row(range.start, range.part, parts);
        Pack<float, 4> four{};
        load_four<Sink::kIsWhole>(i == row.count ? heads + range.part * shape.width
                                                 : tails + row.part_of(i) * shape.width,
                                  column,
                                  shape.width,
                                  four);
        return unpacked(four);
      },
      [&](WarpRange const& range, std::int64_t column, Columns<4> const& sum) {
        auto const rank = static_cast<std::int32_t>(range.rank);
        auto const target = sink.target_of(true, rank);
        typename Sink::Ahead ahead;
        ahead.load(sink, target, column);
        sink.finish(step, ahead, target, rank, column, sum, shape);
      });
}

/// Finishes the sums of the places of each rank. `workspace`: grouped_sums_workspace_bytes().
template <class Rows, class Sink>
void launch_grouped_sums(CudaStream stream,
                         GroupedPlaces const& places,
                         PlaceSource const& source,
                         Rows const& rows,
                         Sink const& sink,
                         std::int64_t width,
                         void* workspace) {
  RowLanes const shape(width, 4);
  PartsOfPlaces const parts(places.capacity, width);
  auto* const tails = static_cast<float*>(workspace);
  auto* const heads = tails + parts.parts * width;
  grouped_parts_kernel<<<grid_for(parts.parts, parts.a_block), kGroupedThreads, 0, stream>>>(
      places, source, rows, sink, shape, parts, tails, heads);
  check_launch("grouped sums, parts");
  grouped_borders_kernel<<<grid_for(parts.parts, kGroupedWarps), kGroupedThreads, 0, stream>>>(
      places, sink, shape, parts, tails, heads);
  check_launch("grouped sums, borders");
}

}  // namespace msstream::ops::kernels
