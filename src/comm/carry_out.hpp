// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/meeting_place.hpp"

namespace msstream::comm::detail {

/// Carries out one rank's share of a collective on the host, while all its ranks do the same: reads
/// the inputs of the parts, and writes the outputs. No two ranks write an element, and none reads
/// an element that another one writes.
void carry_out(int rank, Parts parts);

}  // namespace msstream::comm::detail
