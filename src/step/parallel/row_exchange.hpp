// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/parallel/ids_ahead.hpp"
#include "step/parallel/rows_of_ranks.hpp"
#include "step/tape_state.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <memory>
#include <optional>
#include <source_location>
#include <vector>

namespace msstream::detail {

/// The row-sparse gradients of all tables, in their order, in one part of a batch.
using RowsOfPart = std::vector<std::optional<LookupGradient>>;

/// The gradient of the output of a lookup, and the stream group on which it came; null if the
/// backward ran outside every scope.
struct OutputGradient {
  Floats rows;
  std::shared_ptr<StreamGroup> group;
};

/// The ids of the lookups in each table, gathered before the backward, and the gradients of their
/// outputs.
struct GradientsAhead {
  LookupsAhead lookups;
  std::vector<std::optional<OutputGradient>> outputs;  ///< of tables with SentGradient::outputs
  std::vector<std::optional<OutputGradient>> outputs_of_many;

  /// Returns whether the gradients of outputs of a lookup are sent.
  [[nodiscard]] bool sends_outputs() const;
};

/// Puts the sum of the row-sparse gradients of the tables over all parts of all ranks, times
/// `factor`, on the tape, in the place of those that it has: gathers the ids and rows of all ranks,
/// and merges them in the order of the ranks and of their parts. `parts` are those of this rank, as
/// many on each rank. A part that has no gradient of a table takes part with no rows. Tables that
/// no part has a gradient of, and frozen ones, are left alone, and so are all if there is one part
/// and the factor is 1.
///
/// `ahead` has what was gathered before the backward, if there is one part, and may be empty; only
/// rows are gathered then. If a rank has no gradient of the lookup whose ids it gave, ids and rows
/// of the table are gathered on all ranks.
///
/// All ranks must call it for the same tables, frozen or not: throws std::logic_error otherwise, on
/// all ranks, with the name of the first table that differs. Gathers, for each part, as many rows
/// of a table as the lookups of any part may have touched. The host waits for the hosts of the
/// other ranks to learn that number, but for no device. Asynchronous otherwise; deterministic;
/// capture-safe.
void exchange_rows(TapeState& state,
                   std::vector<NamedTable> const& tables,
                   std::vector<RowsOfPart> const& parts,
                   GradientsAhead ahead,
                   comm::detail::AnyCommunicator const& communicator,
                   float factor,
                   comm::detail::RowBuffers& buffers,
                   std::source_location issued_at);

}  // namespace msstream::detail
