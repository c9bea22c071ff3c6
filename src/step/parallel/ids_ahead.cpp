// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/ids_ahead.hpp"

#include "ids/deduplicate.hpp"
#include "ops/common/bag_view.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/embedding_gradient/merged_gradients.hpp"
#include "step/gradient_scopes.hpp"
#include "step/parallel/or_give_up.hpp"
#include "step/parallel/padded_rows.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>

namespace msstream::detail {
namespace {

/// Stands for the rows of a table whose ids are not known before the backward.
constexpr std::int64_t kUnknown = -2;

/// The numbers that the ranks tell each other of a table before the backward.
struct Told {
  std::int64_t rows = 0;     ///< kFrozenTable, kUnknown, or the most distinct rows of the lookup
  std::int64_t outputs = 0;  ///< rows of the lookup's output
  std::int64_t kind = 0;     ///< of lookups whose outputs may be sent; see kind_of()
};
constexpr std::size_t kToldOfTable = 3 + LookupsInMany::kToldNumbers;

/// Returns the recorded lookup in a table whose ids are known, in exactly the table's rows, or
/// null. There is no more than one lookup in the table.
[[nodiscard]] TapeState::Node const* known_lookup(TapeState const& state, AnyTensor const& table) {
  auto const range = MemoryRange::of(table);
  for (auto const& node : state.nodes) {
    auto const* const one = std::get_if<TapeState::LookedUp>(&node.looked_up);
    if (one != nullptr && one->ids && one->range == range && one->table.value == table.shape()) {
      return &node;
    }
  }
  return nullptr;
}

/// Returns the ids of a lookup as its backward groups them, on the group of the lookup.
[[nodiscard]] ops::UniqueRows<AnyRuntime> grouped(AnyTape& tape,
                                                  TapeState::Node const& node,
                                                  std::int64_t rows) {
  std::optional<AnyStreamScope> scope;
  if (node.group != nullptr) {
    scope.emplace(node.group, StreamScopeOptions{.include_grad = true}, node.issued_at);
  }
  GradientScopes scopes;
  NameScope const names(scopes.of(node.scope));
  auto const& ids = *std::get<TapeState::LookedUp>(node.looked_up).ids;
  return tape.unique_rows(ids.bags, rows, ids.pooling, node.issued_at);
}

/// Returns 0 unless the gradient of a lookup can be computed from ids and outputs of all ranks.
/// Otherwise a number that tells the hotness, the pooling and the type of its ids.
[[nodiscard]] std::int64_t kind_of(TapeState const& state, TapeState::LookedUpIds const& ids) {
  auto const& bags = ids.bags;
  bool const is_pooled = ids.pooling == ops::Pooling::sum || ids.pooling == ops::Pooling::mean;
  bool const is_plain = !bags.offsets && !bags.weights && !bags.default_id &&
                        ops::detail::view_of(bags).bag_count == nullptr;
  if (!is_pooled || !is_plain || state.searches != nullptr) {
    return 0;
  }
  return bags.hotness() * 4 + (ids.pooling == ops::Pooling::mean ? 2 : 0) +
         (bags.ids.dtype() == DType::int32 ? 1 : 0);
}

/// The properties of lookups with outputs that may be sent, by their number; see kind_of().
[[nodiscard]] std::int64_t hotness_of(std::int64_t kind) {
  return kind / 4;
}
[[nodiscard]] ops::Pooling pooling_of(std::int64_t kind) {
  return kind / 2 % 2 == 1 ? ops::Pooling::mean : ops::Pooling::sum;
}
[[nodiscard]] DType dtype_of(std::int64_t kind) {
  return kind % 2 == 1 ? DType::int32 : DType::int64;
}

/// Returns the ids of the ranks, `count` of each rank, from this rank's, of which there may be
/// fewer or none. The others are -1.
[[nodiscard]] AnyTensor gathered(std::optional<AnyTensor> const& own,
                                 std::int64_t count,
                                 DType dtype,
                                 comm::detail::AnyCommunicator const& communicator,
                                 std::shared_ptr<DeviceState> const& device,
                                 std::source_location issued_at) {
  std::optional<AnyTensor> flat;
  if (own) {
    flat = own->reshaped({own->count()});
  }
  auto const sent = PaddedRows{device, dtype, {count}, 0xFF}.of(flat, issued_at);
  AnyTensor all(device, dtype, {communicator.size() * count});
  comm::detail::all_gather(communicator, sent, all, issued_at);
  return all;
}

/// The lookup of a table on this rank, or null.
struct OwnLookup {
  TapeState::Node const* node = nullptr;

  [[nodiscard]] TapeState::LookedUpIds const& ids() const {
    return *std::get<TapeState::LookedUp>(node->looked_up).ids;
  }
  [[nodiscard]] std::int64_t most_rows() const {
    return ops::kernels::place_capacity(ops::detail::view_of(ids().bags));
  }
};

[[nodiscard]] IdsAhead rows_ahead(AnyTape& tape,
                                  OwnLookup const& own,
                                  std::int64_t capacity,
                                  AnyTensor const& table,
                                  std::optional<Floats> values,
                                  comm::detail::AnyCommunicator const& communicator,
                                  std::source_location issued_at) {
  std::optional<ops::UniqueRows<AnyRuntime>> own_rows;
  if (own.node != nullptr) {
    own_rows = or_give_up(communicator, [&] { return grouped(tape, *own.node, table.shape()[0]); });
  }
  AnyStreamScope const scope(communicator.group(), {}, issued_at);
  NameScope const names("data_parallel");
  std::optional<AnyTensor> sent;
  if (own_rows) {
    TensorOf<std::int64_t> const ids(table.device(), {capacity});
    ops::detail::copy_ids(own_rows->ids, own_rows->count, ids, issued_at);
    sent = ids.any();
  }
  ops::Bags<AnyRuntime> bags(TensorOf<std::int64_t>(
      gathered(sent, capacity, DType::int64, communicator, table.device(), issued_at)));
  auto of_ranks = ops::detail::deduplicate(bags, table.shape()[0], ops::Pooling::sum, issued_at);
  return {SentGradient::distinct_rows,
          std::move(own_rows),
          std::nullopt,
          capacity,
          std::move(bags),
          ops::Pooling::sum,
          std::move(of_ranks),
          std::move(values)};
}

/// `kind` is that of the lookups of all ranks that have one.
[[nodiscard]] IdsAhead outputs_ahead(OwnLookup const& own,
                                     std::int64_t capacity,
                                     std::int64_t kind,
                                     AnyTensor const& table,
                                     std::optional<Floats> values,
                                     comm::detail::AnyCommunicator const& communicator,
                                     std::source_location issued_at) {
  AnyStreamScope const scope(communicator.group(), {}, issued_at);
  NameScope const names("data_parallel");
  auto const hotness = hotness_of(kind);
  auto const pooling = pooling_of(kind);
  auto const dtype = dtype_of(kind);
  std::optional<ops::Bags<AnyRuntime>> own_bags;
  std::optional<AnyTensor> sent;
  if (own.node != nullptr) {
    own_bags = own.ids().bags;
    sent = own_bags->ids.any();
  }
  auto const ids =
      gathered(sent, capacity * hotness, dtype, communicator, table.device(), issued_at)
          .reshaped({communicator.size() * capacity, hotness});
  ops::Bags<AnyRuntime> bags(dtype == DType::int32
                                 ? ops::detail::AnyIds(TensorOf<std::int32_t>(ids))
                                 : ops::detail::AnyIds(TensorOf<std::int64_t>(ids)));
  auto of_ranks = ops::detail::deduplicate(bags, table.shape()[0], pooling, issued_at);
  return {SentGradient::outputs,
          std::nullopt,
          std::move(own_bags),
          capacity,
          std::move(bags),
          pooling,
          std::move(of_ranks),
          std::move(values)};
}

}  // namespace

LookupsAhead gather_ids_ahead(AnyTape& tape,
                              std::vector<NamedTable> const& tables,
                              bool allows_outputs,
                              comm::detail::AnyCommunicator const& communicator,
                              comm::detail::RowBuffers& buffers,
                              std::source_location issued_at) {
  auto const& state = tape.state();
  std::optional<LookupsInMany> in_many;
  std::vector<OwnLookup> own(tables.size());
  std::vector<std::int64_t> told_by_this;
  or_give_up(communicator, [&] {
    in_many.emplace(tape, tables);
    for (std::size_t i = 0; i < tables.size(); ++i) {
      auto const& weights = tables[i].weights;
      auto const count = in_many->lookups_of(i);
      Told told;
      if (weights.immutable()) {
        told.rows = kFrozenTable;
      } else if (tape.has_gradient(weights)) {
        told.rows = kUnknown;
      } else if (count != 0) {
        OwnLookup const lookup{
            count == 1 && tape.wants_gradient(weights) ? known_lookup(state, weights) : nullptr};
        auto const rows = lookup.node == nullptr ? 0 : lookup.most_rows();
        told.rows = rows == 0 ? kUnknown : rows;
        if (rows > 0) {
          own[i] = lookup;
          told.outputs = lookup.ids().bags.bags();
          told.kind = allows_outputs ? kind_of(state, lookup.ids()) : 0;
        }
      }
      told_by_this.insert(told_by_this.end(), {told.rows, told.outputs, told.kind});
      auto const of_many = allows_outputs ? in_many->told_of(i) : LookupsInMany::kTellsNothing;
      told_by_this.insert(told_by_this.end(), of_many.begin(), of_many.end());
    }
  });
  auto const told_by = rows_of_ranks(tables, told_by_this, communicator);
  LookupsAhead all{
      std::vector<std::optional<IdsAhead>>(tables.size()), or_give_up(communicator, [&] {
        return in_many->gathered(told_by, kToldOfTable, 3, communicator, buffers, issued_at);
      })};
  auto& ahead = all.ids;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Told most;
    bool are_known = true;
    bool is_one_kind = true;
    for (auto const& theirs : told_by) {
      auto const* const told = &theirs[i * kToldOfTable];
      are_known = are_known && told[0] >= 0;
      if (told[0] > 0) {
        is_one_kind = is_one_kind && told[2] != 0 && (most.rows == 0 || told[2] == most.kind);
        most = {std::max(most.rows, told[0]), std::max(most.outputs, told[1]), told[2]};
      }
    }
    if (!are_known || most.rows == 0) {
      continue;
    }
    auto const& weights = tables[i].weights;
    auto const row_bytes = static_cast<std::int64_t>(sizeof(float)) * weights.shape()[1];
    constexpr std::int64_t kMostIds = std::numeric_limits<std::int32_t>::max();  // grouped at once
    auto const capacity = std::min(most.rows, weights.shape()[0]);
    auto const hotness = hotness_of(most.kind);
    constexpr std::int64_t kIdBytes = sizeof(std::int64_t);  // of distinct rows
    auto const bytes_of_ids = hotness * static_cast<std::int64_t>(bytes_of(dtype_of(most.kind)));
    bool const sends_outputs =
        is_one_kind &&
        most.outputs * (row_bytes + bytes_of_ids) <= capacity * (row_bytes + kIdBytes) &&
        communicator.size() * most.outputs * hotness <= kMostIds;
    auto const sent = sends_outputs ? most.outputs : capacity;
    auto values = or_give_up(communicator, [&] {
      return buffers.rows(i, communicator.size() * sent, weights.shape()[1], communicator);
    });
    ahead[i] =
        sends_outputs
            ? outputs_ahead(
                  own[i], sent, most.kind, weights, std::move(values), communicator, issued_at)
            : rows_ahead(tape, own[i], sent, weights, std::move(values), communicator, issued_at);
  }
  return all;
}

}  // namespace msstream::detail
