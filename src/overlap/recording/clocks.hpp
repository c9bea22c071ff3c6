// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

namespace msstream::overlap {

/// Moves the times of devices whose clocks are apart from the host's. Work cannot begin before its
/// call begins, nor end after a synchronisation that waited for it has ended. A clock that breaks
/// one of the two by more than 10 us is moved by that, if the other one then holds; a note says so.
/// A note also says if no move holds both, or if all work begins long after its call. If a tenth of
/// the work at most begins before its call, by more than 100 us, the clock is right: a note names
/// that work, and what begins long before the first call is left out. The recording must be sorted,
/// and is sorted afterwards.
void align_devices(Recording& recording);

}  // namespace msstream::overlap
