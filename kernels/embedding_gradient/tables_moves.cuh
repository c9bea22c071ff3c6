// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding_gradient/tables_sums.cuh"
#include "optimizer/optimizer_rows.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

/// The state of one table for kernels, in as few bytes as possible, because the tables of a launch
/// are parameters of the kernel.
struct MovedTable {
  float* state0;
  float* state1;
  GroupNumbers numbers;
  bool moves;
};

/// The tables of a lookup that one launch updates, among the tables [first, first + kMost).
struct MovedTables {
  static constexpr int kMost = 104;
  std::int32_t first = 0;
  MovedTable tables[kMost] = {};

  /// Returns the state of a table, or null if the launch does not update it.
  __device__ MovedTable const* find(std::int32_t number) const {
    auto const at = number - first;
    return at >= 0 && at < kMost && tables[at].moves ? tables + at : nullptr;
  }
};

/// A sink that updates the rows of tables of one element type by the sums of their gradients, which
/// are stored nowhere.
template <OptimizerKind Kind, class Weight, bool IsWhole>
struct MoveTableRows {
  static constexpr bool kIsWhole = IsWhole;
  // Measured on one H200, 1.75 M positions of 1.17 M rows of 128 floats, µs by rows in flight and
  // blocks per multiprocessor: row-wise Adagrad 601 (2, 4), 637 (2, 3), 647 (4, 3), 651 (4, 2), 737
  // (4, 4); SGD 432 (4, 3), 443 (2, 4), 565 (4, 2); Adagrad 791 (2, 3), 823 (4, 2), 948 (2, 2).
  static constexpr bool kIsRowwise = Kind == OptimizerKind::rowwise_adagrad;
  static constexpr bool kIsSgd = Kind == OptimizerKind::sgd;
  static constexpr bool kIsAdagrad = Kind == OptimizerKind::adagrad;
  static constexpr int kInFlight = IsWhole && (kIsRowwise || kIsAdagrad) ? 2 : 4;
  static constexpr int kBlocks = IsWhole && kIsRowwise               ? 4
                                 : IsWhole && (kIsSgd || kIsAdagrad) ? 3
                                                                     : 2;
  static constexpr bool kFindsTables = false;
  MovedTables tables;
  OptimizerRule rule;
  StepState const* state;

  struct Table {
    DeviceTable<Weight> rows;
    StepRule rule;
    __device__ bool exists() const { return rows.weights != nullptr; }
  };
  struct Ahead {
    RowInMotion<Kind, Weight, IsWhole> columns;
    __device__ void load(Table const& table, std::int64_t row, std::int64_t column) {
      columns.load(table.rows, row, column);
    }
  };
  __device__ bool is_skipped() const { return kernels::is_skipped(state); }
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
            rule_of_step<Kind>(rule, moved->numbers, state)};
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
    if constexpr (has_trust_ratio<Kind>) {
      ahead.columns.move_columns(table.rule, sum, shape, column);
    } else {
      ahead.columns.move_columns(table.rule, sum, squares, shape.width);
    }
    ahead.columns.store(table.rows, row, column);
  }
};

}  // namespace msstream::ops::kernels
