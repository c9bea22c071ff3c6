// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/meeting_place.hpp"

#include <span>

namespace msstream::comm::detail {

/// Carries out one rank's share of a collective on the host, while all its ranks do the same: reads
/// the inputs of the parts, and writes the outputs. No two ranks write an element, and none reads
/// an element that another one writes.
void carry_out(int rank, Parts parts);

/// The inputs of a reduction, by rank.
using Inputs = std::span<void const* const>;

/// Combines `what.count` elements of all inputs in the order of the ranks, as all_reduce and
/// reduce_scatter do. The output may be one of the inputs.
void combine_inputs(Collective const& what, Inputs inputs, void* output);

}  // namespace msstream::comm::detail
