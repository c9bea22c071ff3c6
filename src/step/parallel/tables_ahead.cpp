// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/tables_ahead.hpp"

#include "ops/embedding/embedding_tables.hpp"
#include "step/tape_state.hpp"

#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/trace/name_scope.hpp>

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

namespace msstream::detail {
namespace {

using Tables = ops::EmbeddingTables<AnyRuntime>;

/// A collective of fewer bytes takes hardly less time than one of so many.
constexpr std::int64_t kBytesOfCollective = std::int64_t{1} << 20U;

[[nodiscard]] std::int64_t kind_of(ops::EmbeddingTable<AnyRuntime> const& table, DType ids) {
  constexpr std::int64_t kPoolings = 8;
  return (table.hotness * kPoolings + static_cast<std::int64_t>(table.pooling)) * 2 +
         (ids == DType::int32 ? 1 : 0);
}

/// Returns the ids of a rank's bags for `capacity` samples: those of each table, then -1.
[[nodiscard]] AnyTensor padded(Tables const& tables,
                               ops::TableBags<AnyRuntime> const& bags,
                               std::int64_t capacity,
                               std::source_location issued_at) {
  if (bags.batch == capacity) {
    return bags.ids.any().reshaped({bags.ids.count()});
  }
  auto const own = bags.ids.any().reshaped({bags.ids.count()});
  AnyTensor ids(own.device(), own.dtype(), {tables.hotness() * capacity});
  fill_any(ids, 0xFF, issued_at);  // -1
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    auto const count = tables.table(t).hotness * bags.batch;
    auto const from = tables.first_place(t, bags.batch);
    auto const to = tables.first_place(t, capacity);
    if (count > 0) {
      copy_on_device(ids.rows(to, to + count), own.rows(from, from + count), issued_at);
    }
  }
  return ids;
}

/// Returns the ids of all ranks, table by table and then by rank, from those of each rank table by
/// table.
[[nodiscard]] ops::detail::AnyIds by_table(Tables const& tables,
                                           AnyTensor const& of_ranks,
                                           int ranks,
                                           std::int64_t capacity,
                                           std::source_location issued_at) {
  auto const of_rank = tables.hotness() * capacity;
  std::vector<ops::detail::AnyBags> columns;
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    auto const hotness = tables.table(t).hotness;
    for (int rank = 0; rank < ranks; ++rank) {
      auto const begin = rank * of_rank + tables.first_place(t, capacity);
      auto const ids =
          of_ranks.rows(begin, begin + hotness * capacity).reshaped({capacity, hotness});
      columns.emplace_back(ids.dtype() == DType::int32
                               ? ops::detail::AnyIds(TensorOf<std::int32_t>(ids))
                               : ops::detail::AnyIds(TensorOf<std::int64_t>(ids)));
    }
  }
  return ops::detail::joined_bags(columns, {}, issued_at).ids;
}

}  // namespace

LookupsInMany::LookupsInMany(AnyTape const& tape, std::vector<NamedTable> const& tables)
    : tables_(tables), used_(tables.size()), told_(tables.size()) {
  auto const& state = tape.state();
  for (std::size_t i = 0; i < tables.size(); ++i) {
    numbers_.emplace(MemoryRange::of(tables[i].weights), i);
  }
  auto const count = [&](MemoryRange const& range) {
    numbers_.for_each_overlap(range, [&](auto const& table) { ++used_[table.value]; });
  };
  for (auto const& node : state.nodes) {
    if (auto const* const one = std::get_if<TapeState::LookedUp>(&node.looked_up)) {
      count(one->range);
    } else if (auto const* const many = std::get_if<TapeState::LookedUpMany>(&node.looked_up)) {
      for (std::int64_t t = 0; t < many->tables.tables(); ++t) {
        count(MemoryRange::of(ops::detail::weights_of(many->tables.table(t))));
      }
    }
  }
  if (state.searches != nullptr) {
    return;
  }
  for (auto const& node : state.nodes) {
    auto const* const many = std::get_if<TapeState::LookedUpMany>(&node.looked_up);
    auto numbers = many == nullptr ? std::nullopt : numbers_of(tape, many->tables, many->bags);
    if (!numbers) {
      continue;
    }
    for (std::size_t t = 0; t < numbers->size(); ++t) {
      auto const& table = many->tables.table(static_cast<std::int64_t>(t));
      told_[(*numbers)[t]] = {static_cast<std::int64_t>(numbers->front()) + 1,
                              static_cast<std::int64_t>(t),
                              many->bags->batch,
                              kind_of(table, many->bags->ids.dtype()),
                              many->tables.tables()};
    }
    lookups_.push_back({many->tables, *many->bags, std::move(*numbers)});
  }
  // Ranks may have recorded them in different orders.
  std::ranges::sort(lookups_, {}, [](Lookup const& lookup) { return lookup.numbers.front(); });
}

std::optional<std::vector<std::size_t>> LookupsInMany::numbers_of(
    AnyTape const& tape,
    Tables const& tables,
    std::optional<ops::TableBags<AnyRuntime>> const& bags) {
  if (!bags || bags->offsets || bags->weights || bags->batch_count) {
    return std::nullopt;
  }
  std::vector<std::size_t> numbers;
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    auto const& table = tables.table(t);
    auto const& weights = ops::detail::weights_of(table);
    auto const* const number = numbers_.find(MemoryRange::of(weights));
    if (number == nullptr || used_[*number] != 1 ||
        tables_[*number].weights.shape() != weights.shape() || table.pooling == ops::Pooling::max ||
        table.default_id || table.hotness == 0 || !tape.wants_gradient(weights) ||
        tape.has_gradient(weights)) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::array<std::int64_t, LookupsInMany::kToldNumbers> LookupsInMany::told_of(
    std::size_t table) const {
  auto const& told = told_[table];
  return {told.lookup, told.place, told.samples, told.kind, told.tables};
}

bool LookupsInMany::saves_bytes(Lookup const& lookup, std::int64_t samples) const {
  std::int64_t of_outputs = 0;
  std::int64_t of_rows = 0;
  for (std::int64_t t = 0; t < lookup.tables.tables(); ++t) {
    auto const& table = lookup.tables.table(t);
    auto const& shape = ops::detail::weights_of(table).shape();
    auto const row_bytes = static_cast<std::int64_t>(sizeof(float)) * shape[1];
    auto const ids = samples * table.hotness;
    auto const id_bytes = static_cast<std::int64_t>(bytes_of(lookup.bags.ids.dtype()));
    of_outputs += samples * row_bytes + ids * id_bytes;
    // Rows are gathered after the backward, by two collectives a table.
    of_rows +=
        std::min(shape[0], ids) * (row_bytes + static_cast<std::int64_t>(sizeof(std::int64_t))) +
        2 * kBytesOfCollective;
  }
  return of_outputs + 2 * kBytesOfCollective <= of_rows;
}

std::vector<TablesAhead> LookupsInMany::gathered(
    std::vector<std::vector<std::int64_t>> const& told_by,
    std::size_t stride,
    std::size_t first,
    comm::detail::AnyCommunicator const& communicator,
    comm::detail::RowBuffers& buffers,
    std::source_location issued_at) const {
  std::vector<TablesAhead> all;
  for (auto const& lookup : lookups_) {
    std::int64_t samples = 0;
    bool is_alike = true;
    for (auto const number : lookup.numbers) {
      auto const& own = told_[number];
      for (auto const& theirs : told_by) {
        auto const* const told = &theirs[number * stride + first];
        is_alike = is_alike && told[0] == own.lookup && told[1] == own.place &&
                   told[3] == own.kind && told[4] == own.tables;
        samples = std::max(samples, told[2]);
      }
    }
    constexpr std::int64_t kMostIds = std::numeric_limits<std::int32_t>::max();
    auto const ranks = communicator.size();
    if (!is_alike || samples == 0 || !saves_bytes(lookup, samples) ||
        ranks * samples * lookup.tables.hotness() > kMostIds) {
      continue;
    }
    AnyStreamScope const scope(communicator.group(), {}, issued_at);
    NameScope const names("data_parallel");
    auto const sent = padded(lookup.tables, lookup.bags, samples, issued_at);
    AnyTensor const received(sent.device(), sent.dtype(), {ranks * sent.count()});
    comm::detail::all_gather(communicator, sent, received, issued_at);
    ops::TableBags<AnyRuntime> const bags{
        .ids = by_table(lookup.tables, received, ranks, samples, issued_at),
        .batch = ranks * samples};
    auto const width = lookup.tables.width();
    auto const kept = buffers.rows(lookup.numbers.front(), ranks * samples, width, communicator);
    auto const values = kept ? *kept : Floats(sent.device(), {ranks * samples, width});
    all.push_back({lookup.tables,
                   lookup.numbers,
                   lookup.bags,
                   samples,
                   bags,
                   ops::detail::group_tables(lookup.tables, bags, values.any(), {}, 0, issued_at)});
  }
  return all;
}

}  // namespace msstream::detail
