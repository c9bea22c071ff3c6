// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/report.hpp"
#include "overlap/find/shared_streams.hpp"

#include <span>
#include <vector>

namespace msstream::overlap {

/// Predicts the window after the fix of each finding, and returns whether each has something to
/// gain, alone or beside the fixes of the others.
[[nodiscard]] std::vector<bool> predict(Report& report,
                                        Program const& program,
                                        Host const& host,
                                        Collectives const& collectives,
                                        SharedStreams const& shared,
                                        std::span<Ledger const> ledgers);

}  // namespace msstream::overlap
