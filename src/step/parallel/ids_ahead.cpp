// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/ids_ahead.hpp"

#include "ops/embedding/embedding.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/embedding_gradient/merged_gradients.hpp"
#include "step/gradient_scopes.hpp"
#include "step/parallel/or_give_up.hpp"
#include "step/tape_state.hpp"

#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/trace/name_scope.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

namespace msstream::detail {
namespace {

/// Stands for the rows of a table whose ids are not known before the backward.
constexpr std::int64_t kUnknown = -2;

/// The lookups of one table that are recorded.
struct Lookups {
  std::int64_t count = 0;
  TapeState::Node const* known = nullptr;  ///< one whose ids are known, in exactly the table's rows
};

[[nodiscard]] Lookups lookups_in(TapeState const& state, AnyTensor const& table) {
  auto const range = MemoryRange::of(table);
  Lookups found;
  for (auto const& node : state.nodes) {
    if (auto const* const one = std::get_if<TapeState::LookedUp>(&node.looked_up)) {
      if (one->range.overlaps(range)) {
        ++found.count;
        bool const is_whole = one->range == range && one->table.value == table.shape();
        found.known = one->ids && is_whole ? &node : nullptr;
      }
    } else if (auto const* const many =
                   std::get_if<ops::EmbeddingTables<AnyRuntime>>(&node.looked_up)) {
      for (std::int64_t t = 0; t < many->tables(); ++t) {
        auto const& weights = ops::detail::weights_of(many->table(t));
        found.count += MemoryRange::of(weights).overlaps(range) ? 1 : 0;
      }
    }
  }
  return found;
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

[[nodiscard]] IdsAhead gathered(std::optional<ops::UniqueRows<AnyRuntime>> own,
                                std::int64_t capacity,
                                AnyTensor const& table,
                                comm::detail::AnyCommunicator const& communicator,
                                std::source_location issued_at) {
  AnyStreamScope const scope(communicator.group(), {}, issued_at);
  NameScope const names("data_parallel");
  TensorOf<std::int64_t> const sent(table.device(), {capacity});
  if (own) {
    ops::detail::copy_ids(own->ids, own->count, sent, issued_at);
  } else {
    fill_any(sent.any(), 0xFF, issued_at);  // -1
  }
  TensorOf<std::int64_t> ids(table.device(), {communicator.size() * capacity});
  comm::detail::all_gather(communicator, sent.any(), ids.any(), issued_at);
  auto of_ranks = ops::detail::deduplicate(
      ops::detail::AnyBags(ids), table.shape()[0], ops::Pooling::sum, issued_at);
  return {std::move(own), capacity, std::move(ids), std::move(of_ranks)};
}

}  // namespace

std::vector<std::optional<IdsAhead>> gather_ids_ahead(
    AnyTape& tape,
    std::vector<NamedTable> const& tables,
    comm::detail::AnyCommunicator const& communicator,
    std::source_location issued_at) {
  auto const& state = tape.state();
  std::vector<std::optional<ops::UniqueRows<AnyRuntime>>> own(tables.size());
  std::vector<std::int64_t> rows;
  or_give_up(communicator, [&] {
    for (std::size_t i = 0; i < tables.size(); ++i) {
      auto const& weights = tables[i].weights;
      if (weights.immutable()) {
        rows.push_back(kFrozenTable);
        continue;
      }
      auto const [count, known] = lookups_in(state, weights);
      if (count == 1 && known != nullptr && tape.wants_gradient(weights) &&
          !tape.has_gradient(weights)) {
        own[i] = grouped(tape, *known, weights.shape()[0]);
      }
      rows.push_back(own[i] ? own[i]->ids.count()
                            : (count == 0 && !tape.has_gradient(weights) ? 0 : kUnknown));
    }
  });
  auto const of_ranks = rows_of_ranks(tables, rows, communicator);
  std::vector<std::optional<IdsAhead>> ahead(tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i) {
    std::int64_t most = 0;
    bool is_known = true;
    for (auto const& theirs : of_ranks) {
      most = std::max(most, theirs[i]);
      is_known = is_known && theirs[i] >= 0;
    }
    if (is_known && most > 0) {
      auto const& weights = tables[i].weights;
      ahead[i] = gathered(
          std::move(own[i]), std::min(most, weights.shape()[0]), weights, communicator, issued_at);
    }
  }
  return ahead;
}

}  // namespace msstream::detail
