// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding/shard_bags.hpp"
#include "embedding/shard_columns.hpp"
#include "embedding/split_slot.hpp"

#include <msstream/step/table_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace msstream::detail {

/// The rows and columns of a table that a rank has.
struct TableBlock {
  std::size_t table;
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t first_column;
  std::int64_t columns;
};

/// The tables of all ranks by a plan, and where their bags, columns and gradients are in the
/// messages between ranks. Equal on all ranks.
struct TableLayout {
  /// The blocks of a rank: first `divided` ones, in the order of the tables, which no other rank
  /// has, and then the replicated tables.
  struct OfRank {
    std::vector<TableBlock> blocks;
    std::size_t divided;
    std::int64_t divided_width;  ///< the columns of the divided blocks together
    std::int64_t width;          ///< the columns of all blocks together
  };

  TableLayout(std::vector<TableSpec> const& tables, TablePlan const& plan, std::int64_t most_bags);

  std::vector<OfRank> ranks;
  std::vector<std::size_t> replicated;  ///< tables
  std::int64_t replicated_width = 0;
  std::int64_t width = 0;            ///< the columns of all tables together
  std::int64_t hotness = 0;          ///< that of all tables together
  std::int64_t widest = 0;           ///< the largest divided_width of a rank
  std::int64_t widest_gradient = 0;  ///< the largest width of a rank
  std::int64_t early_stride = 0;     ///< the floats of the largest early message of pooled rows
  std::int64_t message_stride = 0;   ///< the numbers of the largest message of ids
  std::int64_t most_ids = 0;         ///< the largest capacity of a message

  /// The messages of ids to all ranks, and one more with the replicated tables for the rank itself
  /// if there are any.
  std::vector<ops::kernels::ShardMessage> messages;
  std::vector<ops::kernels::ShardSlot> slots;
  /// The sources of the output columns in the messages of pooled rows, and of the columns of the
  /// messages of gradients in the output.
  std::vector<ops::kernels::ColumnSource> sources;
  std::vector<ops::kernels::SplitSlot> source_slots;  ///< of the sources, if messages are split
  std::vector<std::int32_t> first_sources;
  std::vector<std::int32_t> gradient_sources;
  std::vector<std::int64_t> first_gradient_sources;  ///< of each rank
  /// Tables whose sums are divided at home, and for each output column the number of its table
  /// among them, or -1.
  std::vector<ops::kernels::ShardSlot> divided_at_home;
  std::vector<ops::Pooling> poolings_at_home;
  std::vector<std::int32_t> divisor_tables;

 private:
  void make_blocks(std::vector<TableSpec> const& tables, TablePlan const& plan);
  void make_messages(std::vector<TableSpec> const& tables, std::int64_t most_bags);
  void make_columns(std::vector<TableSpec> const& tables, TablePlan const& plan);
  void make_split_messages(std::int64_t most_bags);
};

}  // namespace msstream::detail
