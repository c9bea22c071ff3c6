// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <algorithm>

/// The times within which two events of a recording count as one after the other, and the times
/// from which something counts as long. docs/overlap.md explains them to users.
namespace msstream::overlap::tolerance {

/// The longest time between an activity that ends and one that waited for it and begins.
[[nodiscard]] inline Ns of_order(Recording const& recording) {
  return 10'000 + 2 * std::max<Ns>(recording.clock_step, 1);
}
/// The longest time between the end of a call and the begin of its work on an idle device.
inline constexpr Ns kLaunchLatency = 30'000;
/// The time that a call which does not wait needs until its work is in the stream.
inline constexpr Ns kIssue = 5'000;
/// A host that makes no call for longer does something else than launching.
inline constexpr Ns kLongGap = 100'000;
/// Likewise, while an operation of a framework is in progress, which includes its dispatch: at
/// most, since a thread that usually needs far less does something else.
inline constexpr Ns kLongOperation = 500'000;
/// An allocation from a pool that takes longer needed memory of the driver.
inline constexpr Ns kPoolGrows = 30'000;
/// Copies of fewer bytes move a value rather than data.
inline constexpr std::int64_t kSmallCopyBytes = 65'536;
/// The number of launches that the driver queues before a launch waits, at least.
inline constexpr std::size_t kQueueDepth = 512;

}  // namespace msstream::overlap::tolerance
