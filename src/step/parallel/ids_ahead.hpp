// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mail/row_buffers.hpp"
#include "step/parallel/rows_of_ranks.hpp"
#include "step/parallel/tables_ahead.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <vector>

namespace msstream::detail {

/// Selects the rows that each rank sends of the gradient of a table after the backward: the
/// gradients of the distinct rows of its lookup, or those of the lookup's output, whichever are
/// fewer bytes.
enum class SentGradient : std::uint8_t { distinct_rows, outputs };

/// The ids of one table that have a gradient on any rank, known before the backward.
struct IdsAhead {
  SentGradient sent;
  /// With distinct_rows: the ids of this rank's lookup, whose gradient will have them. Null if
  /// there is no lookup, as is the next.
  std::optional<ops::UniqueRows<AnyRuntime>> own_rows;
  /// With outputs: the bags of this rank's lookup.
  std::optional<ops::Bags<AnyRuntime>> own_bags;
  std::int64_t capacity;                ///< as many rows as each rank sends
  ops::Bags<AnyRuntime> bags;           ///< [ranks * capacity], the ids whose rows the ranks send
  ops::Pooling pooling;                 ///< of these bags
  ops::UniqueRows<AnyRuntime> grouped;  ///< the ids of these bags
  std::optional<Floats> values;         ///< for the rows of all ranks, if the memory is kept

  [[nodiscard]] bool has_lookup() const { return own_rows || own_bags; }
};

/// The ids of the lookups of a step, gathered before its backward.
struct LookupsAhead {
  std::vector<std::optional<IdsAhead>> ids;  ///< by table; null if they are not gathered by table
  std::vector<TablesAhead> many;             ///< those in many tables
};

/// Gathers the ids of the lookups that the tape has recorded and not yet played back, of each table
/// that has at most one lookup on every rank, and no gradient so far.
///
/// The ids of all ranks are grouped on the communicator's group, so that nothing of it is on the
/// way from the last gradient to the update. All ranks must call it for the same tables, of which
/// there is at least one. The host waits for the hosts of all ranks. Throws what rows_of_ranks()
/// throws. Asynchronous otherwise; deterministic; capture-safe.
///
/// Outputs are sent only if `allows_outputs`: their sums depend on the division of samples between
/// ranks, as those of the rows of each rank do not.
[[nodiscard]] LookupsAhead gather_ids_ahead(AnyTape& tape,
                                            std::vector<NamedTable> const& tables,
                                            bool allows_outputs,
                                            comm::detail::AnyCommunicator const& communicator,
                                            comm::detail::RowBuffers& buffers,
                                            std::source_location issued_at);

}  // namespace msstream::detail
