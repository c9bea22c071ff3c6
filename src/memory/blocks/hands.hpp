// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shared_mutex>

namespace msstream::memory {

/// A lock that threads hold in shared mode while they cut or join free memory, which other threads
/// then cannot find. A thread that holds the lock exclusively sees all free memory.
using Hands = std::shared_mutex;
using InHand = std::shared_lock<Hands>;

/// Takes the lock on free memory in shared mode, and returns the guard. If `hands` is null, the
/// thread has the lock already, and nothing is locked.
[[nodiscard]] inline InHand take_in_hand(Hands* hands) {
  return hands != nullptr ? InHand(*hands) : InHand();
}

}  // namespace msstream::memory
