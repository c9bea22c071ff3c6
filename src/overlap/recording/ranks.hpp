// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <span>

namespace msstream::overlap {

/// Lets the times of several ranks' recordings count from one moment, such that they can be
/// compared, and adds a note to each recording on how that was done.
///
/// Recordings of one file are on one clock. Others are moved by the Unix time of their begin. Then
/// each is moved such that the collectives that it shares with the first one end at the same time,
/// by the median, if that is more than 20 us: clocks of machines differ, a collective's ends do
/// not.
///
/// Returns false, without a change, if a recording has neither a Unix time nor 3 collectives in
/// common with the first (see match_collectives()): then what ranks waited for each other is
/// unknown.
bool align_ranks(std::span<Recording> ranks);

/// Moves all times of a recording by the same time.
void move_times(Recording& recording, Ns by);

}  // namespace msstream::overlap
