// SPDX-License-Identifier: Apache-2.0
// Copies that run alone, because they are pageable or in a stream with other work.
#include "overlap/find/alone.hpp"
#include "overlap/find/tolerances.hpp"

#include <algorithm>

namespace msstream::overlap {
namespace {

constexpr int kMostKernels = 256;  ///< looked at before and after a copy
constexpr Ns kShortCopy = 20'000;  ///< of copies whose bytes are unknown

bool moves_data(Activity const& copy) {
  return copy.bytes == kUnknown ? copy.time.length() >= kShortCopy
                                : copy.bytes >= tolerance::kSmallCopyBytes;
}

}  // namespace

/// Whether an activity is a copy in the other direction than a copy, whose engine is another one:
/// on streams of their own, both could run beside kernels.
bool AloneTime::is_opposite(Index i, Index copy) const {
  auto const& a = program_.activity(i);
  auto const to = program_.activity(copy).direction;
  auto const other = to == CopyDirection::h2d ? CopyDirection::d2h : CopyDirection::h2d;
  return a.kind == ActivityKind::copy && a.direction == other && moves_data(a) && !is_pageable(a);
}

/// Returns what is before an upload in its stream, apart from downloads right before it.
Index AloneTime::before_downloads(Index copy) const {
  auto const close = tolerance::of_order(program_.recording());
  auto after = copy;
  auto i = program_.previous(copy);
  for (int step = 0; step < kMostKernels && i != kNone && is_opposite(i, copy); ++step) {
    if (program_.activity(after).time.begin > program_.activity(i).time.end + close) {
      return kNone;
    }
    after = i;
    i = program_.previous(i);
  }
  return i == kNone || program_.activity(after).time.begin > program_.activity(i).time.end + close
             ? kNone
             : i;
}

/// Returns what is behind a download in its stream, apart from uploads right behind it.
Index AloneTime::behind_uploads(Index copy) const {
  auto const close = tolerance::of_order(program_.recording());
  auto before = copy;
  auto i = program_.next(copy);
  for (int step = 0; step < kMostKernels && i != kNone && is_opposite(i, copy); ++step) {
    if (program_.activity(i).time.begin > program_.activity(before).time.end + close) {
      return kNone;
    }
    before = i;
    i = program_.next(i);
  }
  return i == kNone || program_.activity(i).time.begin > program_.activity(before).time.end + close
             ? kNone
             : i;
}

/// Returns since when kernels ran in a copy's stream right before it: beside them, it could run.
Ns AloneTime::kernels_since(Index copy) const {
  Ns since = program_.activity(copy).time.begin;
  auto i = program_.previous(copy);
  for (int step = 0; step < kMostKernels && i != kNone; ++step, i = program_.previous(i)) {
    if (program_.activity(i).kind != ActivityKind::copy) {
      since = program_.activity(i).time.begin;
    } else if (!is_opposite(i, copy)) {
      break;
    }
  }
  return since;
}

/// Returns until when kernels ran in a copy's stream right after it.
Ns AloneTime::kernels_until(Index copy) const {
  Ns until = program_.activity(copy).time.end;
  auto i = program_.next(copy);
  for (int step = 0; step < kMostKernels && i != kNone; ++step, i = program_.next(i)) {
    if (program_.activity(i).kind != ActivityKind::copy) {
      until = program_.activity(i).time.end;
    } else if (!is_opposite(i, copy)) {
      break;
    }
  }
  return until;
}

/// Whether two copies, one right after the other in a stream, go in opposite directions between
/// host and device, so that two engines could run them at once. Without a kernel between, the
/// second one has nothing of the first one to move.
bool AloneTime::is_turn(Index first, Index second) const {
  if (first == kNone || second == kNone) {
    return false;
  }
  auto const& a = program_.activity(first);
  auto const& b = program_.activity(second);
  auto const declared = program_.declared(first, second);
  bool const opposite = (a.direction == CopyDirection::h2d && b.direction == CopyDirection::d2h) ||
                        (a.direction == CopyDirection::d2h && b.direction == CopyDirection::h2d);
  return a.kind == ActivityKind::copy && b.kind == ActivityKind::copy && opposite &&
         moves_data(a) && moves_data(b) && !(declared && *declared) && program_.has_call(second) &&
         program_.issued(second) < a.time.end &&
         b.time.begin <= a.time.end + tolerance::of_order(program_.recording());
}

/// Offers the time of a copy beside which the next one of its stream could run. Of copies in turn,
/// each counts in one pair.
void AloneTime::offer_other_direction(Interval time, Index running) {
  auto const& copy = program_.activity(running);
  auto const next = program_.next(running);
  bool const counted =
      copy.direction == CopyDirection::d2h && is_turn(program_.previous(running), running);
  if (counted || !is_turn(running, next)) {
    return;
  }
  auto const room = program_.activity(next).time.length();
  offer({.time = {std::max(program_.issued(next), copy.time.end - room), copy.time.end},
         .kind = TimeClass::lost,
         .cause = Cause::one_stream_two_roles,
         .held = next,
         .holder = running},
        time);
}

/// Offers the time of a copy that is alone because it is pageable, or in a stream with kernels.
void AloneTime::offer_own_copy(Interval time, Index running) {
  auto const& copy = program_.activity(running);
  if (!moves_data(copy)) {
    return;
  }
  auto const close = tolerance::of_order(program_.recording());
  auto const before = program_.previous(running);
  auto const next = program_.next(running);
  bool const has_neighbour = before != kNone || next != kNone;
  if (is_pageable(copy) && has_neighbour) {
    offer({.time = time,
           .kind = TimeClass::lost,
           .cause = Cause::pageable_copy,
           .held = running,
           .holder = running,
           .call = copy.call},
          time);
    return;
  }
  offer_other_direction(time, running);
  Charge charge{.time = time, .kind = TimeClass::lost, .cause = Cause::one_stream_two_roles};
  if (copy.direction == CopyDirection::h2d && program_.has_call(running)) {
    auto const kernel = before_downloads(running);
    if (kernel != kNone && program_.activity(kernel).kind == ActivityKind::kernel) {
      // It could have begun when it was issued, beside the kernel.
      auto const room =
          copy.time.begin - std::max(program_.issued(running), kernels_since(running));
      charge.time = {copy.time.begin, copy.time.begin + room - close};
      charge.held = running;
      charge.holder = kernel;
      offer(charge, time);
    }
  }
  if (copy.direction == CopyDirection::d2h) {
    auto const kernel = behind_uploads(running);
    if (kernel != kNone && program_.activity(kernel).kind == ActivityKind::kernel &&
        program_.has_call(kernel)) {
      auto const room = kernels_until(running) - copy.time.end;
      charge.time = {std::max(program_.issued(kernel), time.end - room), time.end};
      charge.held = next;
      charge.holder = running;
      offer(charge, time);
    }
  }
}

}  // namespace msstream::overlap
