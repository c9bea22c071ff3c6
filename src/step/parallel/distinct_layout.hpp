// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding/distinct_rows.hpp"
#include "embedding/shard_bags.hpp"
#include "step/parallel/table_layout.hpp"

#include <msstream/step/table_plan.hpp>

#include <cstdint>
#include <vector>

namespace msstream::detail {

/// The places of distinct rows and of their gradients in the messages between ranks, and in the
/// tables at home, into which a rank copies the rows that its samples look up. Equal on all ranks.
struct DistinctLayout {
  DistinctLayout(std::vector<TableSpec> const& tables,
                 TableLayout const& layout,
                 std::int64_t most_samples);

  /// The messages to all ranks, and one more with the replicated tables for the rank itself if
  /// there are any. A message has the blocks of its rank: first the divided ones, whose rows come
  /// back.
  std::vector<ops::kernels::DistinctMessage> messages;
  std::vector<ops::kernels::DistinctSlot> slots;
  /// The first row of each slot and the end of its rows, and then the first row of each table, all
  /// among the rows of all tables.
  std::vector<std::int64_t> borders;
  std::vector<std::int64_t> rooms;                ///< the most distinct rows of each table
  std::vector<ops::kernels::ShardSlot> bags;      ///< of all tables, in one message
  std::vector<ops::kernels::ShardMessage> all;    ///< the message of all bags
  std::vector<ops::kernels::ShardRows> all_rows;  ///< of each table
  std::vector<std::int64_t> divided_rooms;        ///< the rows of a message's divided blocks
  std::int64_t replicated_room = 0;               ///< the rows of a message's replicated blocks
  std::int64_t id_stride = 0;                     ///< the numbers of the largest message of ids
  std::int64_t row_stride = 0;                    ///< the elements of the largest message of rows
  std::int64_t gradient_stride = 0;  ///< the elements of the largest message of gradients
  std::int64_t slots_of_ranks = 0;   ///< of the messages to all ranks
  std::int64_t most_slots = 0;       ///< of a message
  std::int64_t most_message_ids = 0;
  std::int64_t most_ids = 0;       ///< of a slot
  std::int64_t most_elements = 0;  ///< of the rows of a slot
  /// The first element of each table among those of all tables at home, a multiple of 16 bytes, so
  /// that lookups load whole vectors.
  std::vector<std::int64_t> first_elements;
  std::int64_t elements = 0;  ///< of all tables at home
  std::int64_t rows = 0;      ///< of all tables

 private:
  void add_message(std::vector<TableSpec> const& tables,
                   std::vector<TableBlock> const& blocks,
                   std::size_t returned);

  std::vector<std::int64_t> first_rows_;
};

}  // namespace msstream::detail
