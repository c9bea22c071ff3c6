// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <vector>

namespace msstream::overlap {

/// A pair of activities of which the second could start only after the first, by a wait for an
/// event or as the program declared.
struct WaitArrow {
  Index from = kNone;
  Index to = kNone;

  friend auto operator<=>(WaitArrow const&, WaitArrow const&) = default;
};

/// Returns what the waits between streams of a sorted recording mean for its activities, each pair
/// once, ordered: for each wait, the last activity issued to the recorded stream before the event
/// was recorded, and the first one issued to the waiting stream after the wait.
[[nodiscard]] std::vector<WaitArrow> wait_arrows(Recording const& recording);

}  // namespace msstream::overlap
