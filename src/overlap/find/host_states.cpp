// SPDX-License-Identifier: Apache-2.0
// Tells what the host did instead of issuing work, from one instant to the next.
#include "overlap/find/host.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace msstream::overlap {
namespace {

constexpr Ns kEver = std::numeric_limits<Ns>::max() / 4;
/// The most threads whose calls are looked at in the gaps of another one.
constexpr std::size_t kMostThreads = 8;

void append(std::vector<HostState>& states, HostState state) {
  if (state.time.length() > 0) {
    states.push_back(state);
  }
}

}  // namespace

void Host::append_states(Index thread, Interval time, std::vector<HostState>& states) const {
  auto const first = states.size();
  append_calls(thread, time, states);
  // Looks for calls of other threads in the gaps: a thread may issue what another one prepares.
  std::vector<HostState> own(states.begin() + static_cast<std::ptrdiff_t>(first), states.end());
  states.resize(first);
  Ns at = time.begin;
  for (auto const& state : own) {
    append_gap(thread, {at, state.time.begin}, states);
    states.push_back(state);
    at = state.time.end;
  }
  append_gap(thread, {at, time.end}, states);
}

/// Appends the calls and overheads of a thread, without the gaps.
void Host::append_calls(Index thread, Interval time, std::vector<HostState>& states) const {
  auto const& calls = threads_[thread].calls;
  auto const begin_of = [&](Index call) { return program_.call(call).time.begin; };
  auto at = std::ranges::upper_bound(calls, time.begin, {}, begin_of);
  if (at != calls.begin()) {
    --at;
  }
  Ns done = time.begin;
  for (; at != calls.end() && begin_of(*at) < time.end; ++at) {
    auto const part = clipped(program_.call(*at).time, {done, time.end});
    append(states, {part, causes_[*at], behind(*at)});
    done = std::max(done, part.end);
  }
  lay_overheads(thread, time, states);
}

/// Replaces what overlaps recorded overheads.
void Host::lay_overheads(Index thread, Interval time, std::vector<HostState>& states) const {
  auto const& overheads = threads_[thread].overheads;
  auto const& all = program_.recording().overheads;
  if (overheads.empty()) {
    return;
  }
  auto at = std::ranges::lower_bound(
      overheads, time.begin - kEver / 4, {}, [&](Index i) { return all[i].time.begin; });
  auto const last =
      std::ranges::lower_bound(overheads, time.end, {}, [&](Index i) { return all[i].time.begin; });
  // Overheads are short: looks back over the few that may reach into `time`.
  constexpr std::ptrdiff_t kMostOpen = 64;
  at = std::max(at, last - std::min(kMostOpen, last - overheads.begin()));
  for (; at != last; ++at) {
    auto const& overhead = all[*at];
    auto const part = clipped(overhead.time, time);
    if (part.length() <= 0 || overhead.kind == OverheadKind::other) {
      continue;
    }
    auto const cause = cause_of(overhead.kind);
    std::vector<HostState> laid;
    Index call = kNone;
    for (auto const& state : states) {
      if (state.time.end <= part.begin || state.time.begin >= part.end) {
        laid.push_back(state);
        continue;
      }
      call = state.call;
      append(laid, {{state.time.begin, part.begin}, state.cause, state.call});
      append(laid, {{part.end, state.time.end}, state.cause, state.call});
    }
    auto const place =
        std::ranges::lower_bound(laid, part.begin, {}, [](auto const& s) { return s.time.begin; });
    laid.insert(place, {part, cause, call});
    states = std::move(laid);
  }
}

void Host::append_gap(Index thread, Interval time, std::vector<HostState>& states) const {
  if (time.length() <= 0) {
    return;
  }
  // The gap as the thread had it, of which `time` may be a part.
  auto const& calls = threads_[thread].calls;
  auto const after = std::ranges::lower_bound(
      calls, time.end, {}, [&](Index call) { return program_.call(call).time.begin; });
  Interval gap{-kEver, after == calls.end() ? kEver : program_.call(*after).time.begin};
  if (after != calls.begin()) {
    gap.begin = std::min(time.begin, program_.call(*(after - 1)).time.end);
  }
  if (after != calls.begin() && after != calls.end() && asks_again(*(after - 1), *after)) {
    append(states, {time, Cause::host_synchronization, poll_of(*after)});
    return;
  }
  if (after != calls.begin() && after != calls.end() &&
      program_.call(*after).kind == CallKind::query && causes_[*after] == Cause::host_busy) {
    append(states, {time, Cause::host_busy, kNone});  // asks, with nothing to wait for
    return;
  }
  if (!is_long_gap(thread, gap)) {
    append(states, {time, Cause::launch_bound, kNone});
    return;
  }
  std::vector<HostState> others;
  std::size_t looked_at = 0;
  auto const& threads = program_.recording().threads;
  for (Index other = 0; other < threads.size() && looked_at < kMostThreads; ++other) {
    if (other != thread && threads_[other].issues &&
        threads[other].process == threads[thread].process) {
      ++looked_at;
      append_calls(other, time, others);
    }
  }
  std::ranges::stable_sort(others, {}, [](HostState const& state) { return state.time.begin; });
  Ns at = time.begin;
  auto const append_rest = [&](Ns end) {
    auto const length = end - at;
    auto const is_short = !others.empty() && length <= threads_[thread].long_gap;
    append(states, {{at, end}, is_short ? Cause::launch_bound : Cause::host_busy, kNone});
  };
  for (auto const& state : others) {
    if (state.time.end <= at) {
      continue;
    }
    append_rest(std::max(at, state.time.begin));
    append(states, {{std::max(at, state.time.begin), state.time.end}, state.cause, state.call});
    at = std::max(at, state.time.end);
  }
  append_rest(time.end);
}

}  // namespace msstream::overlap
