// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saved_blocks.hpp"

#include "step/parallel/sharded_tables_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace msstream::detail {
namespace {

using nlohmann::json;

/// Returns whether a name is that of the state which an optimizer has for a table, in a list that
/// may have put something before it.
[[nodiscard]] bool is_state_of(std::string const& table, std::string_view name) {
  for (auto const* const number : {"0", "1"}) {
    auto const state = "optimizer/" + table + "/state" + number;
    if (name == state || name.ends_with("/" + state)) {
      return true;
    }
  }
  return false;
}

[[nodiscard]] SavedBlock block_of(ShardedTablesState const& tables,
                                  TableBlock const& block,
                                  std::string name,
                                  AnyTensor const& tensor,
                                  int rank) {
  auto const& table = tables.tables()[block.table];
  SavedBlock at{std::move(name),
                tensor.dtype(),
                {table.rows, table.width},
                block.first_row,
                block.rows,
                block.first_column,
                block.columns};
  if (tensor.shape().rank() == 1) {
    auto const& plan = tables.plan().tables[block.table];
    bool const is_one_of_several = plan.sharding == Sharding::column_wise && plan.ranks.size() > 1;
    at.shape = {table.rows};
    at.columns = 1;
    at.first_column = 0;
    if (is_one_of_several) {
      at.shape.push_back(static_cast<std::int64_t>(plan.ranks.size()));
      at.first_column = std::ranges::find(plan.ranks, rank) - plan.ranks.begin();
    }
  }
  require(tensor.count() == at.rows * at.columns,
          "the tensor '{}' of shape {} for a part [{}, {}] of table '{}'; expected the state of "
          "the part",
          at.name,
          tensor.shape(),
          block.rows,
          block.columns,
          table.name);
  return at;
}

}  // namespace

std::int64_t SavedBlock::rows_at_once() const {
  constexpr std::int64_t kMostBytes = std::int64_t{16} << 20U;
  return std::max<std::int64_t>(1, kMostBytes / row_bytes());
}

bool belongs_to(std::vector<TableSpec> const& tables, std::string_view name) {
  return std::ranges::any_of(tables, [&](auto const& table) {
    return table.name == name || is_state_of(table.name, name);
  });
}

std::vector<BlockOfRank> blocks_of_rank(AnyShardedTables const& tables,
                                        checkpoint::Tensors const& others) {
  auto const& state = tables.state();
  auto const rank = state.communicator().rank();
  std::vector<BlockOfRank> blocks;
  for (auto const& part : state.parts()) {
    auto const& table = state.tables()[part.block.table].name;
    blocks.push_back({block_of(state, part.block, table, part.weights, rank), part.weights});
    for (auto const& [name, tensor, is_optional] : others.any()) {
      require(name != table, "the tensor '{}' has the name of a table in parts", name);
      if (is_state_of(table, name)) {
        blocks.push_back({block_of(state, part.block, name, tensor, rank), tensor});
      }
    }
  }
  return blocks;
}

std::string told(std::vector<BlockOfRank> const& blocks) {
  auto all = json::array();
  for (auto const& [at, tensor] : blocks) {
    all.push_back({at.name,
                   static_cast<int>(at.dtype),
                   at.shape,
                   at.first_row,
                   at.rows,
                   at.first_column,
                   at.columns});
  }
  return all.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::vector<SavedBlock> understood(std::string const& text) {
  std::vector<SavedBlock> blocks;
  for (auto const& block : json::parse(text)) {
    blocks.push_back({block[0].get<std::string>(),
                      static_cast<DType>(block[1].get<int>()),
                      block[2].get<std::vector<std::int64_t>>(),
                      block[3].get<std::int64_t>(),
                      block[4].get<std::int64_t>(),
                      block[5].get<std::int64_t>(),
                      block[6].get<std::int64_t>()});
  }
  return blocks;
}

}  // namespace msstream::detail
