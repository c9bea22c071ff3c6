// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/row_vector.cuh"
#include "common/warp_reduce.cuh"
#include "embedding_gradient/tables_sums.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// The sums of embedding_gradient/tables_sums.cuh for rows that are read four columns at a time.
/// Instructions limit them as much as memory does: a warp therefore serves several rows with each
/// instruction, its lanes stay together, and what differs between tables is found out once a table.
namespace msstream::ops::kernels {

/// The columns of a row that a lane has: `Quads` times four, the first from `column` on and each of
/// the others `distance` further on, as far as the row has them.
template <int Quads>
struct LaneQuads {
  int column;
  int distance;
  int width = 0;  ///< columns of the row

  __device__ LaneQuads(int first_column, int to_next) : column(first_column), distance(to_next) {
    // In a register of the lane; from a register of the warp, each address takes more instructions.
    asm("" : "+r"(distance));
  }
  __device__ void set_width(std::int64_t columns) { width = static_cast<int>(columns); }
  [[nodiscard]] __device__ int column_of(int quad) const { return column + quad * distance; }
  [[nodiscard]] __device__ bool has(int quad) const { return column_of(quad) < width; }
};

/// Columns of a sum that a lane has.
template <int Quads>
struct QuadColumns {
  static constexpr int kQuads = Quads;
  Columns<kTableSumCount> at[Quads];

  /// Stores columns of a row, which may begin at any address.
  __device__ void store(float* row, LaneQuads<Quads> const& lane) const {
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
      int const column = lane.column_of(q);
      store_some_columns(row + column, at[q], lane.width - column);
    }
  }
};

/// A sorted position, as far as the kernel must know it. A number of kNone stands for none.
struct alignas(16) StagedQuadPlace {
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  std::uint32_t quad = kNone;    ///< of its bag's gradient: the number of the first element, over 4
  std::uint32_t target = kNone;  ///< target of the sum that ends here
  float factor = 1.0F;
  std::int32_t place = 0;
  std::int32_t table = -1;  ///< -1 if the position has no row
  std::int32_t row = 0;     ///< of the output gradient

  __device__ void set_element(std::int64_t element) {
    quad = static_cast<std::uint32_t>(element / kTableSumCount);
  }
  __device__ void set_target(std::int64_t number) { target = static_cast<std::uint32_t>(number); }
};

/// Columns of a row that a group of lanes requests, as many as it adds in one pass.
struct ColumnsAhead {
  int first;
  int end;
};

/// A line of each row of an array, which a lane requests into the L2 cache before it is needed.
struct LineAhead {
  static constexpr std::uint32_t kBytes = 128;
  char const* first = nullptr;  ///< of row 0; null if the lane requests nothing
  std::uint32_t stride = 0;     ///< bytes from one row to the next

  LineAhead() = default;
  /// The line with the given number of some columns of each row of `width` elements, as far as they
  /// have it.
  template <class T>
  __device__ LineAhead(T const* array, ColumnsAhead const& columns, int width, int number)
      : stride(static_cast<std::uint32_t>(width) * sizeof(T)) {
    auto const at = static_cast<std::uint32_t>(columns.first) * sizeof(T) +
                    static_cast<std::uint32_t>(number) * kBytes;
    if (array != nullptr && at < static_cast<std::uint32_t>(columns.end) * sizeof(T)) {
      first = reinterpret_cast<char const*>(array) + at;
    }
  }
  /// A line of a gradient, whose rows are told by the number of their first four elements.
  template <class T>
  [[nodiscard]] static __device__ LineAhead of_quads(void const* gradient,
                                                     ColumnsAhead const& columns,
                                                     int number) {
    LineAhead line(static_cast<T const*>(gradient), columns, columns.end, number);
    line.stride = kTableSumCount * sizeof(T);
    return line;
  }
  __device__ void request(std::uint32_t row) const {
    if (first != nullptr && row != StagedQuadPlace::kNone) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(row_at(first, row, stride)));
    }
  }
};

/// The requests of a group of lanes for positions ahead: one half of the lanes request the target's
/// weights and its number of state, the other half the gradient. Then they request the target's
/// rows of state, if the sink has any.
struct PlacesAhead {
  /// Positions between the one that is added and the one that is requested. On one H200, row-wise
  /// Adagrad of 1.75 M positions of 1.17 M rows of 128 floats took 498 µs with 2, 510 µs with 3 and
  /// 523 µs with 4.
  static constexpr std::uint32_t kDistance = 2;
  LineAhead line;
  LineAhead of_state;
  bool takes_gradient = false;  ///< whether `line` is of the gradient

  PlacesAhead() = default;
  template <class Sink>
  __device__ PlacesAhead(TablesGradientArgs const& args,
                         Sink const& sink,
                         typename Sink::Table const& table,
                         RowLanes const& shape,
                         ColumnsAhead const& columns,
                         int width) {
    int const half = shape.lanes() / 2;
    int const number = shape.lane() % half;
    takes_gradient = shape.lane() >= half;
    if (!takes_gradient) {
      line = sink.target_ahead(table, columns, width, number);
    } else if (args.gradient_dtype == DType::float32) {
      line = LineAhead::of_quads<float>(args.output_gradient, columns, number);
    } else {
      // float16 and bfloat16 have the same size.
      line = LineAhead::of_quads<bfloat16>(args.output_gradient, columns, number);
    }
    of_state = sink.state_ahead(table, columns, width, takes_gradient, number);
  }
  template <class Sink>
  __device__ void request(StagedQuadPlace const& place) const {
    line.request(*(takes_gradient ? &place.quad : &place.target));
    if constexpr (Sink::kHasRowsOfState) {
      of_state.request(place.target);
    }
  }
};

/// Adds the gradient of a staged position, whose elements are of type T, to a sum. `gradient` is
/// the lane's first column of element 0, and `argmax` that of column 0 of the table, or null if it
/// has no maxima.
template <class T, bool HasExtras, int Quads>
__device__ void add_gradient_of(TablesGradientArgs const& args,
                                char const* gradient,
                                StagedQuadPlace const& place,
                                std::int32_t const* argmax,
                                std::int64_t argmax_width,
                                LaneQuads<Quads> const& lane,
                                QuadColumns<Quads>& sum) {
  auto const* const from = reinterpret_cast<T const*>(
      row_at(gradient, place.quad, kTableSumCount * static_cast<std::uint32_t>(sizeof(T))));
  PackedColumns<T, kTableSumCount> loaded[Quads];
#pragma unroll
  for (int q = 0; q < Quads; ++q) {
    if (lane.has(q)) {
      loaded[q] = load_packed<kTableSumCount>(from + q * lane.distance);
    }
  }
#pragma unroll
  for (int q = 0; q < Quads; ++q) {
    if (lane.has(q)) {
      auto columns = loaded[q].widened();
      if (HasExtras && argmax != nullptr) {
        keep_maxima(columns,
                    argmax + place.row * argmax_width + lane.column_of(q),
                    place.place,
                    kTableSumCount);
      }
      if (HasExtras && args.factors != nullptr) {
        columns.multiply(place.factor);
      }
      sum.at[q].add(columns);
    }
  }
}
template <bool HasExtras, class... Arguments>
__device__ void add_gradient(TablesGradientArgs const& args, Arguments&&... arguments) {
  if (args.gradient_dtype == DType::bfloat16) {
    add_gradient_of<bfloat16, HasExtras>(args, arguments...);
  } else if (args.gradient_dtype == DType::float32) {
    add_gradient_of<float, HasExtras>(args, arguments...);
  } else {
    add_gradient_of<float16, HasExtras>(args, arguments...);
  }
}

/// The division of rows among lanes. Lane l has the columns [4 l, 4 l + 4), and those half of the
/// row's lanes further on. Squares are added in the order of row_lanes(): the first step of its
/// tree adds the two halves.
struct QuadPairs {
  static constexpr int kQuads = 2;  ///< times four columns that a lane has at once
  using Lane = LaneQuads<kQuads>;
  using Sum = QuadColumns<kQuads>;
  RowLanes shape;

  explicit QuadPairs(std::int64_t widest) : shape(widest, kQuads * kTableSumCount) {
    shape.log2_lanes =
        std::max(shape.log2_lanes, 1);  // one lane a row would need much shared memory
  }
  [[nodiscard]] __device__ int distance() const { return shape.lanes() * kTableSumCount; }
  template <class Squares>
  [[nodiscard]] static __device__ float squares_of_lane(Squares const& squares) {
    return (Rounded{squares(0, 0.0F)} + Rounded{squares(1, 0.0F)}).value;
  }
};

/// The tables whose positions the groups of lanes of a block add. They are in shared memory,
/// because most of a table is seldom needed, and would take the registers of what always is.
template <class Table>
struct SharedTables {
  /// Returns the bytes that the groups of a block need, behind those of the staged positions.
  static std::size_t bytes_a_block(RowLanes const& shape) {
    static_assert(sizeof(Table) <= 256, "with staged positions, 48 KiB for two lanes a row");
    return static_cast<std::size_t>(kTableSumThreads / shape.lanes()) * sizeof(Table);
  }
  [[nodiscard]] static __device__ Table& of_group(StagedTablePlaces<StagedQuadPlace> const& staged,
                                                  RowLanes const& shape) {
    auto const group = threadIdx.x >> shape.log2_lanes;
    auto const groups = static_cast<unsigned>(kTableSumThreads) >> shape.log2_lanes;
    auto* const behind = staged.places + (groups - group) * staged.count;
    return reinterpret_cast<Table*>(behind)[group];
  }
};

/// Sums the gradients of one part of the sorted positions per group of lanes, and passes the sums
/// of rows whose positions it contains completely to the sink. All lanes of a warp do each step
/// together, those of a group that has no more positions too. `HasExtras`: whether the lookup has
/// factors or maxima.
template <class Sink, bool HasExtras>
__global__ void __launch_bounds__(kTableSumThreads, Sink::kBlocks)
    table_sum_quads_kernel(__grid_constant__ TablesGradientArgs const args,
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
  StagedTablePlaces<StagedQuadPlace> const staged(shape);
  auto& table = SharedTables<typename Sink::Table>::of_group(staged, shape);
  auto const widest = static_cast<int>(shape.width);
  for (int base = 0; base < widest; base += Division::kQuads * division.distance()) {
    typename Division::Lane lane(base + shape.lane() * kTableSumCount, division.distance());
    auto const* const gradient =
        static_cast<char const*>(args.output_gradient) +
        static_cast<std::uint32_t>(lane.column) * (args.gradient_dtype == DType::float32 ? 4U : 2U);
    typename Division::Sum sum;
    typename Sink::Held held;
    bool is_head = mine.has_head;
    std::int32_t number = -1;
    bool exists = false;
    PlacesAhead ahead;
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
          auto const& about = args.tables[number];
          auto const lanes = lanes_of_group(shape);
          __syncwarp(lanes);
          if (shape.lane() == 0) {
            table = sink.table(args, number);
          }
          __syncwarp(lanes);
          exists = table.exists();
          lane.set_width(about.width);
          ColumnsAhead const columns{
              base, min(lane.width, base + Division::kQuads * division.distance())};
          ahead = PlacesAhead(args, sink, table, shape, columns, lane.width);
          held = {};
          if (HasExtras) {
            argmax = args.argmax != nullptr && about.pooling == Pooling::max
                         ? args.argmax + about.first_argmax_column
                         : nullptr;
          }
        }
      }
      bool const adds = exists && number >= 0;
      if (!adds) {
        is_head = false;  // the part's first row is of a table that does not exist for the sink
      }
      auto const added = adds ? count : 0;
      auto const steps = warp_max(count);
      for (std::uint32_t i = 0; i < steps; ++i) {
        if (i + PlacesAhead::kDistance < added) {
          ahead.request<Sink>(staged.places[i + PlacesAhead::kDistance]);
        }
        auto const& place = staged.places[i];
        bool ends = i < added && place.target != StagedQuadPlace::kNone;
        if (ends) {
          held.load(table, place.target, lane);
        }
        if (i < added && place.quad != StagedQuadPlace::kNone) {
          add_gradient<HasExtras>(args, gradient, place, argmax, widths.argmax, lane, sum);
        }
        if (!__any_sync(kAll, ends)) {
          continue;
        }
        if (ends && is_head) {
          sum.store(heads + part * widest, lane);
          sum = {};
          ends = false;
          is_head = false;
        }
        auto const squares =
            sink.template squares_of<Division>(table, held, ends, lane, sum, shape);
        if (ends) {
          sink.finish(table, held, place.target, lane, sum, squares);
          sum = {};
        }
      }
      next = min(next + count, mine.end);
    }
    if (mine.has_tail && number >= 0 && exists) {
      sum.store(tails + part * widest, lane);
    }
  }
}

}  // namespace msstream::ops::kernels
