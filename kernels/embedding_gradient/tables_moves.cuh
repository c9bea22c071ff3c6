// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_pairs.cuh"
#include "optimizer/optimizer_rows.cuh"

#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

/// The state of one table for kernels, in as few bytes as possible, because the tables of a launch
/// are parameters of the kernel.
template <class Rounding>
struct MovedTable {
  float* state0;
  float* state1;
  GroupNumbers numbers;
  bool moves;
  typename Rounding::OfTable rounding;
};

/// The tables of a lookup that one launch updates, among the tables [first, first + kMost).
template <class Rounding>
struct MovedTables {
  static constexpr int kMost = std::is_empty_v<typename Rounding::OfTable> ? 104 : 68;
  std::int32_t first = 0;
  MovedTable<Rounding> tables[kMost] = {};

  /// Returns the state of a table, or null if the launch does not update it.
  __device__ MovedTable<Rounding> const* find(std::int32_t number) const {
    auto const at = number - first;
    return at >= 0 && at < kMost && tables[at].moves ? tables + at : nullptr;
  }
};

/// A sink that updates the rows of tables of one element type, and of one way of rounding, by the
/// sums of their gradients, which are stored nowhere.
template <OptimizerKind Kind, class Weight, bool IsWhole, class Rounding>
struct MoveTableRows {
  static constexpr bool kIsWhole = IsWhole;
  static constexpr bool kIsWide = false;
  /// Rules that add up other things than squares over a row do so in an order of their own.
  static constexpr bool kTakesPairs = IsWhole && !has_trust_ratio<Kind>;
  static constexpr int kInFlight = 4;
  /// As many as the registers of the rule's state allow. Measured for row-wise Adagrad alone: 531
  /// µs for 1.75 M positions of 1.17 M rows of 128 floats, on one H200.
  static constexpr int kBlocks = !kTakesPairs || has_state1<Kind> ? 2
                                 : has_state0<Kind> && !has_row_state0<Kind>
                                     ? (Rounding::kIsStochastic ? 2 : 3)
                                     : (Rounding::kIsStochastic ? 3 : 4);
  static constexpr bool kFindsTables = false;
  using Division = QuadPairs;
  MovedTables<Rounding> tables;
  OptimizerRule rule;
  StepState const* state;

  struct Table {
    DeviceTable<Weight> rows;
    StepRule rule;
    Rounding rounding;
    __device__ bool exists() const { return rows.weights != nullptr; }
  };
  struct Ahead {
    RowInMotion<Kind, Weight, IsWhole> columns;
    __device__ void load(Table const& table, std::int64_t row, std::int64_t column) {
      columns.load(table.rows, row, column);
    }
  };
  /// The columns of a target that a lane of QuadPairs has.
  struct Held {
    using Row = RowInMotion<Kind, Weight, IsWhole>;
    Row first;
    Row second;

    __device__ void load(Table const& table, std::int64_t row, LaneColumns const& lane) {
      auto const at = row * table.rows.width + lane.column;
      first.load_whole(table.rows, at, lane.has_first);
      second.load_whole(table.rows, at + lane.distance, lane.has_second);
      first.load_row_state(table.rows, row);
    }
  };
  __device__ bool is_skipped() const { return kernels::is_skipped(state); }
  /// Requests columns of a row and of its state.
  __device__ void prefetch(Table const& table,
                           std::int64_t row,
                           ColumnsAhead const& columns) const {
    auto const& rows = table.rows;
    auto const at = row * rows.width;
    prefetch_to_l2(rows.weights + at, columns);
    if constexpr (has_state0<Kind> && !has_row_state0<Kind>) {
      prefetch_to_l2(rows.state0 + at, columns);
    }
    if constexpr (has_state1<Kind> && !has_row_state1<Kind>) {
      prefetch_to_l2(rows.state1 + at, columns);
    }
    if constexpr (has_row_state<Kind>) {
      if (columns.lane == 0) {
        prefetch_to_l2((has_row_state0<Kind> ? rows.state0 : rows.state1) + row);
      }
    }
  }
  __device__ Table table(TablesGradientArgs const& args, std::int32_t number) const {
    auto const* const moved = tables.find(number);
    if (moved == nullptr) {
      return {};
    }
    auto const& table = args.tables[number];
    return {{static_cast<Weight*>(const_cast<void*>(table.table)),
             moved->state0,
             moved->state1,
             table.width},
            rule_of_step<Kind>(rule, moved->numbers, state),
            Rounding(moved->rounding, state)};
  }
  __device__ std::int64_t target_of(TablesGradientArgs const& args,
                                    std::int32_t number,
                                    std::int32_t rank) const {
    return __ldg(args.unique_rows + rank) - __ldg(args.first_rows + number);
  }
  __device__ float squares_of(Table const& table,
                              Ahead const& ahead,
                              Columns<kTableSumCount> const& sum) const {
    if constexpr (has_row_state<Kind>) {
      return ahead.columns.squares_of(table.rule, sum);
    } else {
      return 0.0F;
    }
  }
  template <int Count>
  __device__ void add_squares(float (&squares)[Count], RowLanes const& shape) const {
    if constexpr (has_row_state<Kind>) {
      RowInMotion<Kind, Weight, IsWhole>::sum_over_lanes(squares, shape);
    }
  }
  __device__ void finish(Table const& table,
                         Ahead& ahead,
                         RowLanes const& shape,
                         std::int64_t row,
                         std::int64_t column,
                         Columns<kTableSumCount> const& sum,
                         float squares) const {
    auto const rounding = table.rounding.at(row, column);
    if constexpr (has_trust_ratio<Kind>) {
      ahead.columns.move_columns(table.rule, sum, shape, column, rounding);
    } else {
      ahead.columns.move_columns(table.rule, sum, squares, shape.width, rounding);
    }
    ahead.columns.store(table.rows, row, column);
  }

  /// Returns the sum of the squares of a row's gradient to all of its lanes, if the rule needs it.
  /// All lanes of the warp call it.
  __device__ float squares_of(Table const& table,
                              Held const& pair,
                              PairOfColumns const& sum,
                              RowLanes const& shape) const {
    if constexpr (has_row_state<Kind>) {
      Rounded const of_lane = Rounded{pair.first.squares_of(table.rule, sum.first)} +
                              Rounded{pair.second.squares_of(table.rule, sum.second)};
      return Held::Row::sum_over_lanes_of_warp(of_lane.value, shape);
    } else {
      return 0.0F;
    }
  }
  __device__ void finish(Table const& table,
                         Held& pair,
                         std::int64_t row,
                         LaneColumns const& lane,
                         PairOfColumns const& sum,
                         float squares) const {
    auto const of_first = table.rounding.at(row, lane.column);
    auto const of_second = table.rounding.at(row, lane.column + lane.distance);
    if constexpr (has_row_state<Kind>) {
      auto of_row = move_row_state<Kind>(table.rule, squares, lane.width, pair.first.row_state);
      asm("" : "+f"(of_row));  // otherwise the compiler computes it for each half of the columns
      pair.first.move_columns_by(table.rule, sum.first, of_row, of_first);
      pair.second.move_columns_by(table.rule, sum.second, of_row, of_second);
      if (lane.column == 0) {
        pair.first.store_row_state(table.rows, row);
      }
    } else {
      pair.first.move_columns(table.rule, sum.first, squares, lane.width, of_first);
      pair.second.move_columns(table.rule, sum.second, squares, lane.width, of_second);
    }
    auto const at = row * table.rows.width + lane.column;
    pair.first.store_whole(table.rows, at, lane.has_first);
    pair.second.store_whole(table.rows, at + lane.distance, lane.has_second);
  }
};

}  // namespace msstream::ops::kernels
