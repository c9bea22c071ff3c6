// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/shared_streams.hpp"

namespace msstream::overlap {

/// Charges the window of one device: each ns gets one class and, where time was lost, the cause.
[[nodiscard]] Ledger account(Program const& program,
                             Host const& host,
                             Collectives const& collectives,
                             SharedStreams const& shared,
                             Index device,
                             Interval window,
                             CauseSet const& harmless = {});

}  // namespace msstream::overlap
