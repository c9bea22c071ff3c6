// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/cause.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/report.hpp"

#include <span>
#include <string>

namespace msstream::overlap {

/// Says what a recording lacks, for time that it does not explain; what recording cost, which it
/// estimates; and what contradicts the order of streams.
void add_notes(Report& report,
               Program const& program,
               Host const& host,
               std::span<Ledger const> ledgers);

/// Says where the program's start ends, if the window contains it and much of the time went there.
void add_note_of_start(Report& report);

/// Says how far the replay of the recorded program is from the recording.
[[nodiscard]] std::string replay_text(ReplayCheck const& check);

/// Says that work waited at no loss: because nothing is to be gained from a cause, or no more than
/// its idle time.
[[nodiscard]] std::string harmless_text(Recording const& recording,
                                        Index device,
                                        Cause cause,
                                        Ns time,
                                        Interval window,
                                        bool gains_idle_time);

}  // namespace msstream::overlap
