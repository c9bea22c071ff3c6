// SPDX-License-Identifier: Apache-2.0
// Finds the work that a kernel still follows when a fix gives it a stream or a thread of its own.
#include "overlap/predict/replay.hpp"

namespace msstream::overlap {

/// Returns the last work before a moved kernel in its old stream that it still follows: that of
/// its thread, or what the program declares that it needs. kNone if there is none.
Index Replay::before_moved_kernel(Index i) const {
  constexpr int kMostSteps = 64;
  auto before = program_.previous(i);
  for (int step = 0; step < kMostSteps && before != kNone; ++step) {
    auto const declared = program_.declared(before, i);
    if (declared ? *declared : program_.thread_of(before) == program_.thread_of(i)) {
      return before;
    }
    before = program_.previous(before);
  }
  return kNone;
}

/// Returns whether a moved activity is needed by what followed it in its stream.
bool Replay::is_needed_after(Index moved, Index next) const {
  if (auto const declared = program_.declared(moved, next)) {
    return *declared;
  }
  auto const& copy = program_.activity(moved);
  if (copy.kind != ActivityKind::copy) {
    return program_.thread_of(moved) == program_.thread_of(next);
  }
  return copy.direction != CopyDirection::d2h;
}

/// Returns the place, plus 1, of the first step that a thread took after it last waited.
Index Replay::first_step_since_wait(Index step) const {
  for (auto before = steps_[step - 1].after; before != 0; before = steps_[before - 1].after) {
    if (steps_[before - 1].waits) {
      break;
    }
    step = before;
  }
  return step;
}

}  // namespace msstream::overlap
