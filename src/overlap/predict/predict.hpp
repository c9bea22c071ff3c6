// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/report.hpp"
#include "overlap/find/shared_streams.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace msstream::overlap {

/// Tells how much the fix of a finding is predicted to gain, alone or beside the other fixes.
enum class Gain : std::uint8_t {
  nothing,
  idle_time,  ///< no more than the time in which nothing ran
  all,        ///< more than that, or the fix is of a kind whose gain is not told from the window
};

/// Predicts the window after the fix of each finding, and returns what each has to gain.
[[nodiscard]] std::vector<Gain> predict(Report& report,
                                        Program const& program,
                                        Host const& host,
                                        Collectives const& collectives,
                                        SharedStreams const& shared,
                                        std::span<Ledger const> ledgers);

}  // namespace msstream::overlap
