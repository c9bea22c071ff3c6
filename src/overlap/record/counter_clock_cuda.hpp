// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cupti.h>

namespace msstream::overlap::record {

/// Returns a clock that counts the ns of CLOCK_REALTIME with the processor's counter, without a
/// call of the kernel; CLOCK_REALTIME itself on processors without such a counter. The first call
/// takes 20 ms, to learn how fast the counter is.
[[nodiscard]] CUpti_TimestampCallbackFunc counter_clock();

}  // namespace msstream::overlap::record
