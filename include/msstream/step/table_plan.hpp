// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/step/initializer.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// An embedding table, as ShardedTables must know it.
struct TableSpec {
  std::string name;
  std::int64_t rows;
  std::int64_t width;
  ops::Pooling pooling = ops::Pooling::sum;  ///< any pooling except none
  /// Ids per bag if the lookup has no offsets. With offsets, the most ids that a sample of a rank
  /// has on average.
  std::int64_t hotness = 1;
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
  /// By default that of Parameters::table().
  std::optional<Initializer> initializer = {};
};

/// The way in which a table is divided between ranks.
enum class Sharding : std::uint8_t {
  table_wise,   ///< one rank has the table
  row_wise,     ///< each rank has a block of the rows
  column_wise,  ///< each rank has a block of the columns
  replicated,   ///< every rank has the table: data parallel
};
[[nodiscard]] std::string_view name_of(Sharding sharding);

/// The place of one table among the ranks.
struct TablePlacement {
  std::string table;
  Sharding sharding = Sharding::table_wise;
  /// The ranks that have parts of the table, in the order of the parts, which differ by at most one
  /// row or column: one rank for table_wise, and none, which means all ranks, for replicated.
  std::vector<int> ranks = {};

  friend bool operator==(TablePlacement const&, TablePlacement const&) = default;
};

/// The places of all tables, in the order of their specs.
struct TablePlan {
  int ranks = 1;  ///< the number of ranks that the plan is for
  std::vector<TablePlacement> tables = {};

  friend bool operator==(TablePlan const&, TablePlan const&) = default;
};

/// Throws std::invalid_argument, with the name of the table, for specs that are wrong by
/// themselves: no table, an empty name or one that occurs twice, no rows or columns, a hotness
/// below 1, Pooling::none, and element types that are no floats.
void require_tables(std::vector<TableSpec> const& tables);
/// Throws std::invalid_argument, with the name of the table, unless the plan has a placement for
/// each table, in their order, of ranks that exist and differ: one for table_wise, at most as many
/// as the table has rows or columns for row_wise and column_wise, and none or all for replicated.
/// Refuses Pooling::max for row_wise and replicated tables.
void require_plan(std::vector<TableSpec> const& tables, TablePlan const& plan);

}  // namespace msstream
