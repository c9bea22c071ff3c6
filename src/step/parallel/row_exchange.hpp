// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/tape_state.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/comm/reduction.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>
#include <string>
#include <vector>

namespace msstream::detail {

/// A table of a parameter store.
struct NamedTable {
  std::string name;
  AnyTensor weights;
};

/// Replaces the row-sparse gradients of the tables by their mean or sum over the ranks: gathers the
/// ids and rows of all ranks, and merges them in the order of the ranks. A rank that has no
/// gradient of a table takes part with no rows. Tables that no rank has a gradient of, and frozen
/// ones, are left alone.
///
/// All ranks must call it for the same tables, frozen or not: throws std::logic_error otherwise, on
/// all ranks, with the name of the first table that differs. Gathers as many rows of a table as the
/// lookups of any rank may have touched. The host waits for the hosts of the other ranks to learn
/// that number, but for no device. Asynchronous otherwise; deterministic; capture-safe.
void exchange_rows(AnyTape& tape,
                   std::vector<NamedTable> const& tables,
                   comm::detail::AnyCommunicator const& communicator,
                   comm::Reduction reduction,
                   std::source_location issued_at);

}  // namespace msstream::detail
