// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/distinct_layout.hpp"

#include <msstream/base/detail/require.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace msstream::detail {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kFloatsOfVector = 4;

}  // namespace

DistinctLayout::DistinctLayout(std::vector<TableSpec> const& tables,
                               TableLayout const& layout,
                               std::int64_t most_samples) {
  require(layout.hotness <= kMost / most_samples,
          "ShardedTables: a hotness of {} in all tables, with most_samples {}; expected less than "
          "2^31 ids",
          layout.hotness,
          most_samples);
  std::int64_t hotness = 0;
  for (auto const& table : tables) {
    require(
        !table.default_id,
        "ShardedTables: the table '{}' has default_id {}; expected none with SentRows::distinct",
        table.name,
        table.default_id.value_or(0));
    auto const number = static_cast<std::int32_t>(bags.size());
    bags.push_back({table.rows, hotness, number, static_cast<std::int32_t>(table.hotness), 0, 1});
    hotness += table.hotness;
    auto const most = table.hotness * most_samples;
    rooms.push_back(
        std::min({table.rows, most, table.most_distinct > 0 ? table.most_distinct : most}));
    all_rows.push_back({0, table.rows, rows});
    first_rows_.push_back(rows);
    first_elements.push_back(elements);
    rows += table.rows;
    elements +=
        (rooms.back() * table.width + kFloatsOfVector - 1) / kFloatsOfVector * kFloatsOfVector;
  }
  all.push_back({0, static_cast<std::int64_t>(tables.size()), hotness * most_samples});
  std::vector<TableBlock> replicated;
  for (auto const t : layout.replicated) {
    replicated.push_back({t, 0, tables[t].rows, 0, tables[t].width});
    replicated_room += rooms[t];
  }
  for (auto const& rank : layout.ranks) {
    add_message(tables, rank.blocks, rank.divided);
    divided_rooms.push_back(messages.back().capacity - replicated_room);
  }
  slots_of_ranks = static_cast<std::int64_t>(slots.size());
  if (!replicated.empty()) {
    add_message(tables, replicated, replicated.size());
  }
  borders.insert(borders.end(), first_rows_.begin(), first_rows_.end());
  borders.push_back(rows);
  auto const ranks = static_cast<std::int64_t>(layout.ranks.size());
  require(
      id_stride <= kMost / ranks,
      "ShardedTables: messages of {} numbers between {} ranks; expected less than 2^31 together",
      id_stride,
      ranks);
}

void DistinctLayout::add_message(std::vector<TableSpec> const& tables,
                                 std::vector<TableBlock> const& blocks,
                                 std::size_t returned) {
  ops::kernels::DistinctMessage message{static_cast<std::int64_t>(slots.size()),
                                        static_cast<std::int64_t>(blocks.size()),
                                        static_cast<std::int64_t>(returned),
                                        0};
  std::int64_t returned_elements = 0;
  std::int64_t all_elements = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto const& block = blocks[i];
    auto const first = first_rows_[block.table] + block.first_row;
    auto const ids = std::min(rooms[block.table], block.rows);
    slots.push_back({first,
                     first_elements[block.table],
                     static_cast<std::int32_t>(block.table),
                     static_cast<std::int32_t>(messages.size()),
                     static_cast<std::int32_t>(block.first_column),
                     static_cast<std::int32_t>(block.columns),
                     static_cast<std::int32_t>(tables[block.table].width),
                     i < returned ? 1 : 0});
    borders.push_back(first);
    borders.push_back(first + block.rows);
    message.capacity += ids;
    all_elements += ids * block.columns;
    returned_elements = i < returned ? all_elements : returned_elements;
    most_ids = std::max(most_ids, ids);
    most_elements = std::max(most_elements, ids * block.columns);
  }
  most_slots = std::max(most_slots, message.slots);
  most_message_ids = std::max(most_message_ids, message.capacity);
  id_stride = std::max(id_stride, 2 * (message.slots + 1) + message.capacity);
  row_stride = std::max(row_stride, returned_elements);
  gradient_stride = std::max(gradient_stride, all_elements);
  messages.push_back(message);
}

}  // namespace msstream::detail
