// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/parallel/rows_of_ranks.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <vector>

namespace msstream::detail {

/// The ids of one table that have a gradient on any rank, known before the backward.
struct IdsAhead {
  /// The ids of this rank's lookup, whose gradient will have them. Null if there is no lookup.
  std::optional<ops::UniqueRows<AnyRuntime>> own;
  std::int64_t capacity;                 ///< as many rows as each rank sends
  TensorOf<std::int64_t> ids;            ///< [ranks * capacity], of all ranks
  ops::UniqueRows<AnyRuntime> of_ranks;  ///< those, grouped
};

/// Gathers the ids of the lookups that the tape has recorded and not yet played back, of each table
/// that has at most one lookup on every rank, and no gradient so far. Returns null for the other
/// tables, and for those without lookups on all ranks. Each rank sends as many ids as a rank has at
/// most.
///
/// The ids are grouped on the communicator's group, so that nothing of it is on the way from the
/// last gradient to the update. All ranks must call it for the same tables. The host waits for the
/// hosts of all ranks. Throws what rows_of_ranks() throws. Asynchronous otherwise; deterministic;
/// capture-safe.
[[nodiscard]] std::vector<std::optional<IdsAhead>> gather_ids_ahead(
    AnyTape& tape,
    std::vector<NamedTable> const& tables,
    comm::detail::AnyCommunicator const& communicator,
    std::source_location issued_at);

}  // namespace msstream::detail
