// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/table_layout.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/batch_parts.hpp>

#include <algorithm>
#include <limits>

namespace msstream::detail {

using ops::kernels::ColumnSource;
using ops::kernels::ShardSlot;
using ops::kernels::SplitSlot;

TableLayout::TableLayout(std::vector<TableSpec> const& tables,
                         TablePlan const& plan,
                         std::int64_t most_bags)
    : ranks(static_cast<std::size_t>(plan.ranks)) {
  make_blocks(tables, plan);
  make_messages(tables, most_bags);
  make_columns(tables, plan);
  make_split_messages(most_bags);
}

void TableLayout::make_blocks(std::vector<TableSpec> const& tables, TablePlan const& plan) {
  for (std::size_t t = 0; t < tables.size(); ++t) {
    auto const& table = tables[t];
    auto const& at = plan.tables[t];
    width += table.width;
    hotness += table.hotness;
    if (at.sharding == Sharding::replicated) {
      replicated.push_back(t);
      replicated_width += table.width;
      continue;
    }
    bool const by_columns = at.sharding == Sharding::column_wise;
    auto const parts =
        batch_parts(by_columns ? table.width : table.rows, static_cast<int>(at.ranks.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto const& part = parts[i];
      ranks[static_cast<std::size_t>(at.ranks[i])].blocks.push_back(
          by_columns ? TableBlock{t, 0, table.rows, part.begin, part.rows()}
                     : TableBlock{t, part.begin, part.rows(), 0, table.width});
    }
  }
  for (auto& rank : ranks) {
    rank.divided = rank.blocks.size();
    rank.divided_width = 0;
    for (auto const& block : rank.blocks) {
      rank.divided_width += block.columns;
    }
    rank.width = rank.divided_width + replicated_width;
    for (auto const t : replicated) {
      rank.blocks.push_back({t, 0, tables[t].rows, 0, tables[t].width});
    }
    widest = std::max(widest, rank.divided_width);
    widest_gradient = std::max(widest_gradient, rank.width);
  }
}

void TableLayout::make_messages(std::vector<TableSpec> const& tables, std::int64_t most_bags) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int64_t> first_hotness;
  std::int64_t sum = 0;
  for (auto const& table : tables) {
    first_hotness.push_back(sum);
    sum += table.hotness;
  }
  std::vector<bool> is_in_message(tables.size());
  auto const slot_of = [&](std::size_t t) {
    bool const is_first = !is_in_message[t];
    is_in_message[t] = true;
    return ShardSlot{tables[t].rows,
                     first_hotness[t],
                     static_cast<std::int32_t>(t),
                     static_cast<std::int32_t>(tables[t].hotness),
                     static_cast<std::int32_t>(messages.size()),
                     is_first ? 1 : 0,
                     tables[t].default_id.value_or(-1)};
  };
  auto const add_message = [&](std::vector<std::size_t> const& of_tables) {
    auto const first = static_cast<std::int64_t>(slots.size());
    std::int64_t capacity = 0;
    for (auto const t : of_tables) {
      slots.push_back(slot_of(t));
      // At most 2^62, and then the loop ends.
      capacity += tables[t].hotness * most_bags;
      require(capacity <= kMost,
              "ShardedTables: {} ids in a message, with most_samples {}; expected at most {}",
              capacity,
              most_bags,
              kMost);
    }
    auto const count = static_cast<std::int64_t>(of_tables.size());
    most_ids = std::max(most_ids, capacity);
    messages.push_back({first, count, capacity});
    message_stride = std::max(message_stride, count * most_bags + 1 + capacity);
  };
  for (auto const& rank : ranks) {
    std::vector<std::size_t> of_rank;
    for (auto const& block : rank.blocks) {
      of_rank.push_back(block.table);
    }
    add_message(of_rank);
  }
  if (!replicated.empty()) {
    add_message(replicated);
  }
  require(
      message_stride <= kMost / static_cast<std::int64_t>(ranks.size()),
      "ShardedTables: messages of {} numbers between {} ranks; expected less than 2^31 together",
      message_stride,
      ranks.size());
}

void TableLayout::make_columns(std::vector<TableSpec> const& tables, TablePlan const& plan) {
  std::vector<std::vector<ColumnSource>> of_columns(static_cast<std::size_t>(width));
  std::vector<std::int64_t> first_columns;
  std::int64_t sum = 0;
  for (auto const& table : tables) {
    first_columns.push_back(sum);
    sum += table.width;
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    first_gradient_sources.push_back(static_cast<std::int64_t>(gradient_sources.size()));
    std::int32_t column = 0;
    for (std::size_t i = 0; i < ranks[r].blocks.size(); ++i) {
      auto const& block = ranks[r].blocks[i];
      auto const first = first_columns[block.table] + block.first_column;
      for (auto c = first; c < first + block.columns; ++c, ++column) {
        gradient_sources.push_back(static_cast<std::int32_t>(c));
        if (i < ranks[r].divided) {
          of_columns[static_cast<std::size_t>(c)].push_back({static_cast<std::int32_t>(r), column});
        }
      }
    }
  }
  std::int32_t own_column = 0;
  for (auto const t : replicated) {
    for (auto c = first_columns[t]; c < first_columns[t] + tables[t].width; ++c, ++own_column) {
      of_columns[static_cast<std::size_t>(c)].push_back(
          {static_cast<std::int32_t>(ranks.size()), own_column});
    }
  }
  first_sources.push_back(0);
  for (auto const& of_column : of_columns) {
    sources.insert(sources.end(), of_column.begin(), of_column.end());
    first_sources.push_back(static_cast<std::int32_t>(sources.size()));
  }
  for (std::size_t t = 0; t < tables.size(); ++t) {
    bool const divides =
        plan.tables[t].sharding == Sharding::row_wise && tables[t].pooling != ops::Pooling::sum;
    auto const number = divides ? static_cast<std::int32_t>(divided_at_home.size()) : -1;
    if (divides) {
      auto const slot = std::ranges::find(slots, static_cast<std::int32_t>(t), &ShardSlot::table);
      divided_at_home.push_back(*slot);
      poolings_at_home.push_back(tables[t].pooling);
    }
    divisor_tables.insert(divisor_tables.end(), static_cast<std::size_t>(tables[t].width), number);
  }
}

void TableLayout::make_split_messages(std::int64_t most_bags) {
  std::vector<std::vector<SplitSlot>> of_columns;  // of each rank's message
  for (auto const& rank : ranks) {
    auto const slots = static_cast<std::int32_t>(rank.divided);
    auto& columns = of_columns.emplace_back();
    for (std::int32_t s = 0; s < slots; ++s) {
      auto const first = static_cast<std::int32_t>(columns.size());
      auto const count = rank.blocks[static_cast<std::size_t>(s)].columns;
      columns.insert(columns.end(), static_cast<std::size_t>(count), {s, slots, first});
    }
    early_stride = std::max(early_stride, (slots + rank.divided_width) * most_bags);
  }
  for (auto const& source : sources) {
    auto const rank = static_cast<std::size_t>(source.rank);
    source_slots.push_back(rank < ranks.size()
                               ? of_columns[rank][static_cast<std::size_t>(source.column)]
                               : SplitSlot{});
  }
}

}  // namespace msstream::detail
