// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/row_vector.cuh"
#include "common/warp_reduce.cuh"
#include "embedding_gradient/prefetch.cuh"
#include "embedding_gradient/tables_sums.cuh"

#include <cuda_runtime.h>

#include <cstdint>

/// The sums of embedding_gradient/tables_sums.cuh for rows that are read four columns at a time.
/// Instructions limit them, not memory: a warp therefore serves several rows with each instruction,
/// and its lanes stay together.
namespace msstream::ops::kernels {

/// The columns of a row that a lane has: four from `column` on, and four from `distance` further
/// on, as far as the row has them.
struct LaneColumns {
  int column;
  int distance;
  int width = 0;  ///< columns of the row
  bool has_first = false;
  bool has_second = false;

  __device__ LaneColumns(int first_column, int to_second)
      : column(first_column), distance(to_second) {}
  __device__ void set_width(std::int64_t columns) {
    width = static_cast<int>(columns);
    has_first = column < width;
    has_second = column + distance < width;
  }
};

/// Columns of a sum that a lane has.
struct PairOfColumns {
  Columns<kTableSumCount> first;
  Columns<kTableSumCount> second;

  __device__ void store(float* row, LaneColumns const& lane) const {
    store_some_columns(row + lane.column, first, lane.width - lane.column);
    store_some_columns(
        row + lane.column + lane.distance, second, lane.width - lane.column - lane.distance);
  }
};

/// Loads four columns of a gradient of any type, if they exist.
template <class T>
__device__ void load_packed(T const* from, bool exists, uint4& to) {
  if (!exists) {
    return;
  }
  if constexpr (sizeof(T) == 4) {
    to = __ldg(reinterpret_cast<uint4 const*>(from));
  } else {
    auto const bits = __ldg(reinterpret_cast<uint2 const*>(from));
    to.x = bits.x;
    to.y = bits.y;
  }
}
template <class T>
[[nodiscard]] __device__ Columns<kTableSumCount> widened(uint4 const& bits) {
  if constexpr (sizeof(T) == 4) {
    return PackedColumns<T, kTableSumCount>{bits}.widened();
  } else {
    return PackedColumns<T, kTableSumCount>{uint2{bits.x, bits.y}}.widened();
  }
}

/// Columns of a gradient of any type that a lane has, as they were loaded.
struct PackedPair {
  uint4 first{};
  uint4 second{};

  template <class T>
  __device__ void load(T const* from, LaneColumns const& lane) {
    load_packed(from, lane.has_first, first);
    load_packed(from + lane.distance, lane.has_second, second);
  }
  template <class T>
  [[nodiscard]] __device__ PairOfColumns widened() const {
    return {kernels::widened<T>(first), kernels::widened<T>(second)};
  }
};

/// Adds the gradient of a staged position to a sum. `argmax` is that of the table's first column,
/// or null if the table has no maxima.
__device__ inline void add_columns(TablesGradientArgs const& args,
                                   StagedTablePlace const& place,
                                   PackedPair const& gradient,
                                   std::int32_t const* argmax,
                                   std::int64_t argmax_width,
                                   LaneColumns const& lane,
                                   PairOfColumns& sum) {
  auto loaded = args.gradient_dtype == DType::float32    ? gradient.widened<float>()
                : args.gradient_dtype == DType::bfloat16 ? gradient.widened<bfloat16>()
                                                         : gradient.widened<float16>();
  if (argmax != nullptr && lane.has_first) {
    auto const* const row = argmax + place.row * argmax_width + lane.column;
    keep_maxima(loaded.first, row, place.place, kTableSumCount);
    if (lane.has_second) {
      keep_maxima(loaded.second, row + lane.distance, place.place, kTableSumCount);
    }
  }
  if (args.factors != nullptr) {
    loaded.first.multiply(place.factor);
    loaded.second.multiply(place.factor);
  }
  sum.first.add(loaded.first);
  sum.second.add(loaded.second);
}

/// The division of rows among lanes. Lane l has the columns [4 l, 4 l + 4), and those half of the
/// row's lanes further on. Squares are added in the order of row_lanes(): the first step of its
/// tree adds the two halves.
struct QuadPairs {
  using Lane = LaneColumns;
  using Sum = PairOfColumns;
  using Packed = PackedPair;
  static constexpr int kQuads = 2;  ///< times four columns that a lane has at once
  RowLanes shape;

  explicit QuadPairs(std::int64_t widest) : shape(widest, 2 * kTableSumCount) {}
  [[nodiscard]] __device__ int distance() const { return shape.lanes() * kTableSumCount; }
};

/// Positions between the one that is added and the one whose gradient and target are requested into
/// the L2 cache. On one H200, row-wise Adagrad of 1.75 M positions of 1.17 M rows of 128 floats
/// took 511 µs without such requests, 470 µs with 2, 498 µs with 4 and 550 µs with 8.
inline constexpr std::uint32_t kPlacesAhead = 2;

/// Requests the gradient and the target of a staged position into the L2 cache. The lanes at the
/// end of the group request the gradient, those at its beginning the target.
template <class Sink>
__device__ void prefetch_place(TablesGradientArgs const& args,
                               Sink const& sink,
                               typename Sink::Table const& table,
                               StagedTablePlace const& place,
                               RowLanes const& shape,
                               int first,
                               int last) {
  ColumnsAhead const of_target{first, last, shape.lane()};
  ColumnsAhead const of_gradient{first, last, shape.lanes() - 1 - shape.lane()};
  if (place.target >= 0) {
    sink.prefetch(table, place.target, of_target);
  }
  if (place.element >= 0) {
    if (args.gradient_dtype == DType::float32) {
      prefetch_to_l2(static_cast<float const*>(args.output_gradient) + place.element, of_gradient);
    } else {
      // float16 and bfloat16 have the same size.
      prefetch_to_l2(static_cast<bfloat16 const*>(args.output_gradient) + place.element,
                     of_gradient);
    }
  }
}

/// Sums the gradients of one part of the sorted positions per group of lanes, and passes the sums
/// of rows whose positions it contains completely to the sink. All lanes of a warp do each step
/// together, those of a group that has no more positions too.
template <class Sink>
__global__ void __launch_bounds__(kTableSumThreads, Sink::kBlocks)
    table_sum_pairs_kernel(__grid_constant__ TablesGradientArgs const args,
                           __grid_constant__ Sink const sink,
                           typename Sink::Division const division,
                           TableSumParts const parts,
                           BagWidths const widths,
                           float* tails,
                           float* heads) {
  constexpr unsigned kAll = 0xFFFFFFFFU;
  if (sink.is_skipped()) {
    return;
  }
  using Division = typename Sink::Division;
  auto const& shape = division.shape;
  auto const part = grid_thread() >> shape.log2_lanes;
  TableSumPart const mine(args, parts, part);
  StagedTablePlaces const staged(shape);
  auto const widest = static_cast<int>(shape.width);
  int const first_column = shape.lane() * kTableSumCount;
  for (int base = 0; base < widest; base += Division::kQuads * division.distance()) {
    typename Division::Lane lane(base + first_column, division.distance());
    typename Division::Sum sum;
    bool is_head = mine.has_head;
    std::int32_t number = -1;
    typename Sink::Table table{};
    std::int32_t const* argmax = nullptr;
    auto next = mine.begin;
    while (__any_sync(kAll, next < mine.end)) {
      auto const count =
          next < mine.end ? stage_places(args, widths, shape, sink, next, mine.end, staged) : 0;
      if (count > 0 && staged.places[0].table != number) {
        number = staged.places[0].table;
        if (number < 0) {
          next = mine.end;
        } else {
          table = sink.table(args, number);
          auto const& about = args.tables[number];
          lane.set_width(about.width);
          argmax = args.argmax != nullptr && about.pooling == Pooling::max
                       ? args.argmax + about.first_argmax_column
                       : nullptr;
        }
      }
      bool const adds = table.exists() && number >= 0;
      if (!adds) {
        is_head = false;  // the part's first row is of a table that does not exist for the sink
      }
      auto const steps = warp_max(count);
      for (std::uint32_t i = 0; i < steps; ++i) {
        if (adds && i + kPlacesAhead < count) {
          prefetch_place(args,
                         sink,
                         table,
                         staged.places[i + kPlacesAhead],
                         shape,
                         base,
                         min(lane.width, base + Division::kQuads * division.distance()));
        }
        auto const& place = staged.places[i];
        bool const has_place = adds && i < count && place.element >= 0;
        bool const ends = has_place && place.target >= 0;
        typename Sink::Held ahead;
        typename Division::Packed gradient;
        if (ends) {
          ahead.load(table, place.target, lane);
        }
        if (has_place) {
          auto const element = place.element + lane.column;
          if (args.gradient_dtype == DType::float32) {
            gradient.load(static_cast<float const*>(args.output_gradient) + element, lane);
          } else {
            // float16 and bfloat16 have the same size.
            gradient.load(static_cast<bfloat16 const*>(args.output_gradient) + element, lane);
          }
          add_columns(args, place, gradient, argmax, widths.argmax, lane, sum);
        }
        auto const squares = sink.squares_of(table, ahead, sum, shape);
        if (ends) {
          if (is_head) {
            sum.store(heads + part * widest, lane);
          } else {
            sink.finish(table, ahead, place.target, lane, sum, squares);
          }
          is_head = false;
          sum = {};
        }
      }
      next = min(next + count, mine.end);
    }
    if (mine.has_tail && number >= 0 && table.exists()) {
      sum.store(tails + part * widest, lane);
    }
  }
}

}  // namespace msstream::ops::kernels
