// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/report.hpp"
#include "overlap/find/shared_streams.hpp"

#include <span>

namespace msstream::overlap {

/// Notes what is to be gained although no time counts as lost for it: by a graph, if streams wait
/// for launches while others run, and by a stream of their own for copies, which are in the way of
/// kernels only once the findings are mended. `ledgers` are those of the report's devices.
void note_further_gains(Report& report,
                        Program const& program,
                        Host const& host,
                        Collectives const& collectives,
                        SharedStreams const& shared,
                        std::span<Ledger const> ledgers);

}  // namespace msstream::overlap
