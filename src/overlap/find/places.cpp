// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/places.hpp"

#include <algorithm>
#include <cstddef>

namespace msstream::overlap {
namespace {

/// Returns the last range of at most `most_steps` before a call that contains the call and that
/// `accept` takes.
template <class Accept>
Index last_around(Recording const& recording,
                  Index call,
                  std::ptrdiff_t most_steps,
                  Accept accept) {
  auto const& made = recording.calls.at(call);
  auto const& ranges = recording.ranges;
  auto at = std::ranges::upper_bound(
      ranges, made.time.begin, {}, [](Range const& range) { return range.time.begin; });
  for (auto const first = at - std::min(most_steps, at - ranges.begin()); at != first;) {
    --at;
    if (at->thread == made.thread && at->kind != RangeKind::on_device &&
        at->time.end >= made.time.end && accept(*at)) {
      return static_cast<Index>(at - ranges.begin());
    }
  }
  return kNone;
}

}  // namespace

Index innermost_range(Recording const& recording, Index call) {
  constexpr std::ptrdiff_t kMostSteps = 4'096;
  return last_around(recording, call, kMostSteps, [](Range const&) { return true; });
}

Index named_range(Recording const& recording, Index call) {
  // A range of the user may hold many operations before the call.
  constexpr std::ptrdiff_t kMostSteps = 65'536;
  auto const named = last_around(recording, call, kMostSteps, [](Range const& range) {
    return range.kind != RangeKind::operation;
  });
  return named != kNone ? named : innermost_range(recording, call);
}

}  // namespace msstream::overlap
