// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

namespace msstream::overlap {

/// Notes times of a recording that are hardly right, with the event that has them: work without a
/// length, single activities that are far from all others or far longer, and calls and ranges that
/// end long after everything else. Such a call counts until its thread's next one, such a range
/// until the end of everything else. The recording must be sorted.
void note_doubtful_times(Recording& recording);

}  // namespace msstream::overlap
