// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator_state.hpp"
#include "step/initial_values.hpp"
#include "step/parallel/equal_on_ranks.hpp"
#include "step/parallel/sharded_tables_state.hpp"
#include "stream/stream_group.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/ops/random.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

namespace msstream::detail {
namespace {

[[nodiscard]] TablePlan plan_or_default(TablePlan plan,
                                        std::vector<TableSpec> const& tables,
                                        int ranks,
                                        SentRows sent) {
  if (plan.ranks == 0) {
    plan.ranks = ranks;
    for (auto const& table : tables) {
      auto const rank = static_cast<int>(plan.tables.size() % static_cast<std::size_t>(ranks));
      plan.tables.push_back({table.name, Sharding::table_wise, {rank}});
    }
  }
  require(plan.ranks == ranks,
          "ShardedTables: a plan for {} ranks, and a communicator of {}",
          plan.ranks,
          ranks);
  require_plan(tables, plan, sent);
  return plan;
}

[[nodiscard]] std::vector<TableSpec> checked(std::vector<TableSpec> tables) {
  require_tables(tables);
  return tables;
}

[[nodiscard]] ShardedTablesOptions const& checked(ShardedTablesOptions const& options) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require(options.most_samples >= 1 && options.most_samples <= kMost,
          "ShardedTables: most_samples of {}; expected 1 to {}",
          options.most_samples,
          kMost);
  require(options.parts >= 0,
          "ShardedTables: {} parts of a batch; expected at least 1, or 0 for one a rank",
          options.parts);
  require(options.reduction == comm::Reduction::mean || options.reduction == comm::Reduction::sum,
          "ShardedTables: the {} of gradients; expected mean or sum",
          name_of(options.reduction));
  require(options.out_of_range == ops::OutOfRange::drop ||
              options.out_of_range == ops::OutOfRange::trap,
          "ShardedTables: OutOfRange number {}; expected drop or trap",
          static_cast<int>(options.out_of_range));
  require(options.sent == SentRows::pooled || options.sent == SentRows::distinct,
          "ShardedTables: SentRows number {}; expected pooled or distinct",
          static_cast<int>(options.sent));
  return options;
}

/// Returns a line with the options, and one for each table.
[[nodiscard]] std::string list_of(std::vector<TableSpec> const& tables,
                                  TablePlan const& plan,
                                  ShardedTablesOptions const& options) {
  auto text =
      fmt::format("the {} of the gradients of at most {} samples in {} parts, seed {}, ids {}, {}",
                  name_of(options.reduction),
                  options.most_samples,
                  options.parts,
                  options.seed,
                  options.out_of_range == ops::OutOfRange::drop ? "dropped" : "trapped",
                  options.sent == SentRows::pooled ? "pooled rows" : "distinct rows");
  for (std::size_t i = 0; i < tables.size(); ++i) {
    auto const& table = tables[i];
    text += fmt::format(
        "\nthe table '{}', {} [{}, {}], pooling {}, hotness {}, at most {} distinct, {}, "
        "{}, {} on [{}]",
        table.name,
        table.dtype,
        table.rows,
        table.width,
        static_cast<int>(table.pooling),
        table.hotness,
        table.most_distinct,
        table.default_id ? fmt::format("default id {}", *table.default_id) : "no default id",
        table.initializer ? to_string(*table.initializer) : "no initializer",
        name_of(plan.tables[i].sharding),
        fmt::join(plan.tables[i].ranks, ", "));
  }
  return text;
}

[[nodiscard]] StreamGroupOptions ahead_options(std::string const& communicator) {
  StreamGroupOptions options;
  options.merge_streams = true;
  options.priority = StreamPriority::low;
  options.libraries = StreamPoolOptions::LibrariesMade::when_needed;
  options.name = "ahead of " + communicator;
  return options;
}

using Table = ops::EmbeddingTable<AnyRuntime>;

[[nodiscard]] Table table_of(AnyTensor const& weights, ops::Pooling pooling) {
  auto const made = [&](auto const& typed) { return Table{.weights = typed, .pooling = pooling}; };
  switch (weights.dtype()) {
    case DType::float16:
      return made(TensorOf<float16>(OfKnownType(), weights));
    case DType::bfloat16:
      return made(TensorOf<bfloat16>(OfKnownType(), weights));
    default:
      return made(TensorOf<float>(OfKnownType(), weights));
  }
}

}  // namespace

ShardedTablesState::ShardedTablesState(std::vector<TableSpec> tables,
                                       comm::detail::AnyCommunicator const& communicator,
                                       ShardedTablesOptions const& options,
                                       TablePlan plan,
                                       std::source_location issued_at)
    : tables_(checked_on_all(communicator, [&] { return checked(std::move(tables)); })),
      communicator_(communicator),
      options_(checked_on_all(communicator, [&] { return checked(options); })),
      plan_(checked_on_all(communicator,
                           [&] {
                             return plan_or_default(
                                 std::move(plan), tables_, communicator.size(), options.sent);
                           })),
      layout_(checked_on_all(communicator,
                             [&] { return TableLayout(tables_, plan_, options.most_samples); })),
      device_(communicator.state().device().state()),
      ahead_(checked_on_all(communicator,
                            [&] {
                              return StreamGroup::make(communicator.state().device().context(),
                                                       -1,
                                                       ahead_options(communicator.name()));
                            })),
      id_policy_(options.out_of_range),
      of_rank_(fmt::format("ShardedTables, rank {}", communicator.rank())) {
  require_equal_on_ranks("ShardedTables",
                         "tables, plans and options",
                         communicator.exchange(list_of(tables_, plan_, options_)));
  make_parts(options.seed, issued_at);
  std::vector<std::int64_t> widths;
  std::vector<std::int64_t> gradient_widths;
  for (auto const& rank : layout_.ranks) {
    widths.push_back(rank.divided_width);
    gradient_widths.push_back(rank.width);
  }
  std::vector<ops::kernels::ShardRows> rows;
  for (auto const& part : parts_) {
    rows.push_back({part.block.first_row, part.block.rows, 0});
  }
  std::tie(slots_,
           messages_,
           rows_,
           sources_,
           source_slots_,
           first_sources_,
           gradient_sources_,
           first_gradient_sources_,
           widths_,
           gradient_widths_,
           divided_at_home_,
           poolings_at_home_,
           divisor_tables_) = arrays_.uploaded(device_,
                                               issued_at,
                                               layout_.slots,
                                               layout_.messages,
                                               rows,
                                               layout_.sources,
                                               layout_.source_slots,
                                               layout_.first_sources,
                                               layout_.gradient_sources,
                                               layout_.first_gradient_sources,
                                               widths,
                                               gradient_widths,
                                               layout_.divided_at_home,
                                               layout_.poolings_at_home,
                                               layout_.divisor_tables);
  for (auto const& table : tables_) {
    id_policy_.tables.push_back(table.name);
  }
  if (options_.sent == SentRows::distinct) {
    distinct_.emplace(*this, issued_at);
  }
}

void ShardedTablesState::make_parts(std::uint64_t seed, std::source_location issued_at) {
  std::vector<Table> all;
  for (auto const& block : own().blocks) {
    auto const& table = tables_[block.table];
    AnyTensor const weights(device_, table.dtype, {block.rows, block.columns});
    fill_with_initial_values(weights,
                             {table.rows, table.width},
                             {block.first_row, block.first_column, table.width},
                             table.initializer.value_or(init::uniform(-0.05F, 0.05F)),
                             {seed, table.name},
                             table.name,
                             issued_at);
    parts_.push_back({block, weights});
    bool const is_by_rows = plan_.tables[block.table].sharding == Sharding::row_wise;
    all.push_back(table_of(weights, is_by_rows ? ops::Pooling::sum : table.pooling));
  }
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(own().divided);
  if (own().divided > 0) {
    divided_.emplace(device_, std::vector<Table>(all.begin(), middle), issued_at);
  }
  if (middle != all.end()) {
    replicated_.emplace(device_, std::vector<Table>(middle, all.end()), issued_at);
  }
  if (!all.empty()) {
    all_.emplace(device_, std::move(all), issued_at);
  }
}

std::int64_t ShardedTablesState::ranks() const noexcept {
  return static_cast<std::int64_t>(layout_.ranks.size());
}

float ShardedTablesState::scale() const noexcept {
  auto const parts = options_.parts == 0 ? ranks() : options_.parts;
  return options_.reduction == comm::Reduction::mean ? 1 / static_cast<float>(parts) : 1.0F;
}

TableLayout::OfRank const& ShardedTablesState::own() const {
  return layout_.ranks[static_cast<std::size_t>(communicator_.rank())];
}

AnyShardedTables::AnyShardedTables(std::vector<TableSpec> tables,
                                   comm::detail::AnyCommunicator const& communicator,
                                   ShardedTablesOptions const& options,
                                   TablePlan plan,
                                   std::source_location issued_at)
    : state_(std::make_shared<ShardedTablesState>(
          std::move(tables), communicator, options, std::move(plan), issued_at)) {}

std::vector<TableSpec> const& AnyShardedTables::tables() const noexcept {
  return state_->tables();
}
TablePlan const& AnyShardedTables::plan() const noexcept {
  return state_->plan();
}
std::int64_t AnyShardedTables::width() const noexcept {
  return state_->layout().width;
}

std::shared_ptr<ExchangedIds const> AnyShardedTables::exchange(
    ops::TableBags<AnyRuntime> const& bags, bool is_ahead, std::source_location issued_at) const {
  return state_->exchange(bags, is_ahead, issued_at);
}

std::shared_ptr<ExchangedIds const> AnyShardedTables::prefetch_rows(
    std::shared_ptr<ExchangedIds const> const& ids,
    std::shared_ptr<ExchangedIds const> const& now,
    std::source_location issued_at) const {
  require(ids != nullptr && ids->tables == state_ && (now == nullptr || now->tables == state_),
          "ShardedTables: prefetched rows of ids that {}",
          ids == nullptr ? "are null" : "other tables have exchanged");
  return state_->prefetch_rows(*ids, now.get(), issued_at);
}

Floats AnyShardedTables::lookup(AnyTape* tape,
                                std::shared_ptr<ExchangedIds const> const& ids,
                                std::source_location issued_at) const {
  require(ids != nullptr && ids->tables == state_,
          "ShardedTables: a lookup of ids that {}",
          ids == nullptr ? "are null" : "other tables have exchanged");
  return state_->lookup(tape, ids, issued_at);
}

void AnyShardedTables::add_to(Optimizer<AnyRuntime>& optimizer,
                              ops::ParameterGroup const& group,
                              std::source_location issued_at) const {
  optimizer.add_ranks(state_->communicator());
  optimizer.count_updates(state_->updates().counted());
  for (auto const& table : state_->tables()) {
    optimizer.note_elsewhere(table.name);
  }
  for (auto const& part : state_->parts()) {
    auto const& name = state_->tables()[part.block.table].name;
    bool const is_replicated =
        state_->plan().tables[part.block.table].sharding == Sharding::replicated;
    is_replicated
        ? optimizer.add_table(name, part.weights, group, issued_at)
        : optimizer.add_part(
              name, part.weights, part.block.first_row, part.block.first_column, group, issued_at);
  }
}

void AnyShardedTables::for_each_part(
    std::function<void(std::string const&, AnyTensor const&)> const& visit) const {
  for (auto const& part : state_->parts()) {
    visit(state_->tables()[part.block.table].name, part.weights);
  }
}

}  // namespace msstream::detail
