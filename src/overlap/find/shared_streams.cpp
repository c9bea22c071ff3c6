// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/shared_streams.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace msstream::overlap {
namespace {

/// How often two threads took turns in a stream, and what the first one did meanwhile.
struct Turns {
  std::size_t all = 0;
  std::size_t in_calls = 0;
  std::size_t waiting = 0;      ///< the thread with the lower number
  std::size_t other_waits = 0;  ///< the thread with the higher number
};

bool waits(CallKind kind) {
  return kind == CallKind::synchronize || kind == CallKind::query;
}

/// Returns what kind of call a thread makes at a time, loops of queries as one; nothing if none.
std::optional<CallKind> kind_at(Program const& program,
                                Host const& host,
                                Index thread,
                                Interval time) {
  auto const& calls = host.calls_of(thread);
  auto const after = std::ranges::lower_bound(
      calls, time.end, {}, [&](Index call) { return program.call(call).time.begin; });
  if (after == calls.begin()) {
    return std::nullopt;
  }
  auto const& call = program.call(*(after - 1));
  if (call.time.end > time.begin) {
    return call.kind;
  }
  auto const* const wait = host.last_blocking(thread, time.end);
  bool const in_loop = call.kind == CallKind::query && wait != nullptr &&
                       wait->cause == Cause::host_synchronization && wait->time.end > time.begin;
  return in_loop ? std::optional(CallKind::query) : std::nullopt;
}

}  // namespace

SharedStreams::SharedStreams(Program const& program, Host const& host) : program_(program) {
  constexpr std::size_t kFewestTurns = 2;
  constexpr std::size_t kLeastShare = 4;  // of the turns, divided by this
  for (Index stream = 0; stream < program.recording().streams.size(); ++stream) {
    std::map<std::pair<Index, Index>, Turns> turns;
    Index before = kNone;
    for (auto const i : program.of_stream(stream)) {
      auto const thread = program.thread_of(i);
      auto const last = before == kNone ? kNone : program.thread_of(before);
      before = i;
      if (thread == kNone || last == kNone || thread == last) {
        continue;
      }
      auto& turn = turns[std::minmax(thread, last)];
      ++turn.all;
      auto const kind = kind_at(program, host, last, program.call(program.activity(i).call).time);
      if (kind) {
        auto& count = !waits(*kind)   ? turn.in_calls
                      : last < thread ? turn.waiting
                                      : turn.other_waits;
        ++count;
      }
    }
    for (auto const& [threads, turn] : turns) {
      bool const both_wait = std::min(turn.waiting, turn.other_waits) >= kFewestTurns;
      auto const count = turn.in_calls + (both_wait ? turn.waiting + turn.other_waits : 0);
      if (count >= kFewestTurns && kLeastShare * count >= turn.all) {
        apart_.emplace(stream, threads.first, threads.second);
      }
    }
  }
}

bool SharedStreams::are_apart(Index first, Index second) const {
  auto const a = program_.thread_of(first);
  auto const b = program_.thread_of(second);
  auto const stream = program_.activity(first).stream;
  return stream == program_.activity(second).stream && a != kNone && b != kNone && a != b &&
         apart_.contains({stream, std::min(a, b), std::max(a, b)});
}

}  // namespace msstream::overlap
