// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/step/initializer.hpp>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// An embedding table, as ShardedTables must know it.
struct TableSpec {
  std::string name;                          ///< unique among the tables
  std::int64_t rows;                         ///< at least 1
  std::int64_t width;                        ///< elements of a row, at least 1
  ops::Pooling pooling = ops::Pooling::sum;  ///< any pooling except none
  /// Ids per bag if the lookup has no offsets. With offsets, the most ids that a sample of a rank
  /// has on average.
  std::int64_t hotness = 1;
  /// With SentRows::distinct: the most distinct rows of the table that the samples of a rank look
  /// up together, for which there is room in messages. 0 stands for as many as there can be: the
  /// ids by hotness, or all rows of the table.
  std::int64_t most_distinct = 0;
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
  /// By default that of Parameters::table().
  std::optional<Initializer> initializer = {};
  /// The id that is looked up for a bag without a valid id, and that counts as one of its ids: see
  /// ops::EmbeddingTable.
  std::optional<std::int64_t> default_id = {};
};

/// The form in which the rank that has rows of a table sends them to a rank that looks them up, and
/// in which gradients come back.
enum class SentRows : std::uint8_t {
  pooled,    ///< the pooled rows of each sample, and their gradients
  distinct,  ///< each distinct row once, and the sum of its gradients
};

/// The way in which a table is divided between ranks.
enum class Sharding : std::uint8_t {
  table_wise,   ///< one rank has the table
  row_wise,     ///< each rank has a block of the rows
  column_wise,  ///< each rank has a block of the columns
  replicated,   ///< every rank has the table: data parallel
};
/// Returns the name of a sharding, such as "row_wise".
[[nodiscard]] std::string_view name_of(Sharding sharding);

/// The place of one table among the ranks.
struct TablePlacement {
  std::string table;                         ///< TableSpec::name
  Sharding sharding = Sharding::table_wise;  ///< how the table is divided
  /// The ranks that have parts of the table, in the order of the parts, which differ by at most one
  /// row or column: one rank for table_wise, and none, which means all ranks, for replicated.
  std::vector<int> ranks = {};

  friend bool operator==(TablePlacement const&, TablePlacement const&) = default;
};

/// The places of all tables, in the order of their specs.
struct TablePlan {
  int ranks = 1;                            ///< the number of ranks that the plan is for
  std::vector<TablePlacement> tables = {};  ///< one for each spec, in their order

  /// Replaces the placement of the table with this name. Throws std::invalid_argument if the plan
  /// has no such table.
  void place(TablePlacement placement);

  friend bool operator==(TablePlan const&, TablePlan const&) = default;
};

/// Throws std::invalid_argument, with the name of the table, for specs that are wrong by
/// themselves: no table, an empty name or one that occurs twice, no rows or columns, a hotness
/// below 1, Pooling::none, and element types that are no floats.
void require_tables(std::vector<TableSpec> const& tables);
/// Throws std::invalid_argument, with the name of the table, unless the plan has a placement for
/// each table, in their order, of ranks that exist and differ: one for table_wise, at most as many
/// as the table has rows or columns for row_wise and column_wise, and none or all for replicated.
/// Refuses Pooling::max for row_wise and replicated tables, unless distinct rows are sent.
void require_plan(std::vector<TableSpec> const& tables,
                  TablePlan const& plan,
                  SentRows sent = SentRows::pooled);

struct PlanTablesOptions {
  /// The most bytes of tables, with the state of their optimizer, that a rank may have.
  std::int64_t most_bytes_per_rank = std::numeric_limits<std::int64_t>::max();
  /// Tables of at most this size are replicated, unless they take the maximum.
  std::int64_t replicated_bytes = std::int64_t{64} << 10U;
  /// The bytes of the optimizer's state for an element, such as 8 for Adam, and for a row, such as
  /// 4 for row-wise Adagrad.
  std::int64_t state_bytes_per_element = 0;
  std::int64_t state_bytes_per_row = 0;  ///< such as 4 for row-wise Adagrad
  /// Placements that are not chosen but given, by the name of their table.
  std::vector<TablePlacement> fixed = {};
  SentRows sent = SentRows::pooled;  ///< ShardedTablesOptions::sent, by which plans are checked
};

/// Chooses the placements of tables on `ranks` ranks, by their bytes and by the bytes that lookups
/// read, which are hotness times width for each sample. Small tables are replicated. A table with
/// more than a rank's share of either is divided between all ranks: column_wise if a rank then has
/// 32 columns or more and no state is one number a row, or if it takes the maximum, otherwise
/// row_wise. The others are table_wise: largest first, each on the rank that then has the least.
/// The plan depends on the arguments alone. Throws std::invalid_argument for what require_tables()
/// and require_plan() refuse, for fixed placements of tables that do not exist, and if a rank would
/// have more than most_bytes_per_rank: the message has the rank, its bytes and its largest part.
[[nodiscard]] TablePlan plan_tables(std::vector<TableSpec> const& tables,
                                    int ranks,
                                    PlanTablesOptions const& options = {});

/// Returns the plan as a table for people: where each table is, and for each rank its bytes and
/// those that a lookup of one sample reads there. Throws what require_plan() throws.
[[nodiscard]] std::string describe_plan(std::vector<TableSpec> const& tables,
                                        TablePlan const& plan,
                                        PlanTablesOptions const& options = {});

/// Writes the plan to a JSON file, which people may change. Throws what write_file() throws.
void save_plan(std::filesystem::path const& path, TablePlan const& plan);
/// Reads a plan that save_plan() or people have written. Throws std::invalid_argument, with the
/// file, the table and the field, for what is no such plan.
[[nodiscard]] TablePlan load_plan(std::filesystem::path const& path);

}  // namespace msstream
