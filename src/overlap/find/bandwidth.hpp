// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"

namespace msstream::overlap {

/// Finds overlap without gain: activities that take longer beside others than equal ones take
/// alone, by so much that running them at once gained little. The time stays `overlapped` in the
/// accounting. Returns an empty sum if the overlap was worth it, or if nothing can be compared.
[[nodiscard]] CauseSum find_shared_bandwidth(Program const& program,
                                             Collectives const& collectives,
                                             Ledger const& ledger,
                                             Index device,
                                             Interval window);

}  // namespace msstream::overlap
