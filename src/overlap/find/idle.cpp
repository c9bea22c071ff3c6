// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/idle.hpp"

#include "overlap/find/tolerances.hpp"

#include <algorithm>
#include <cstddef>

namespace msstream::overlap {

IdleTime::IdleTime(Program const& program, Host const& host, Holds const& holds, Interval window)
    : program_(program),
      host_(host),
      holds_(holds),
      leads_(program.recording().threads.size() + 1) {
  auto const& calls = program.recording().calls;
  auto const first = std::ranges::lower_bound(
      calls, window.begin, {}, [](Call const& call) { return call.time.begin; });
  if (first != calls.end()) {
    main_thread_ = first->thread;
  }
}

void IdleTime::charge(Interval time, Index next, Ledger& ledger) {
  auto const& recording = program_.recording();
  if (recording.calls.empty()) {
    charge_rest(time, next, ledger);
    return;
  }
  if (next == kNone) {
    charge_host(time, next, ledger);
    return;
  }
  if (!program_.has_call(next) && recording.activities[next].graph == kUnknown) {
    charge_rest(time, next, ledger);
    return;
  }
  auto const issued = std::clamp(program_.issued(next), time.begin, time.end);
  // A call right at the end of the gap began it as well, if the host had no lead.
  charge_host({time.begin, issued}, next, ledger);
  if (issued == time.begin) {
    charge_rest(time, next, ledger);
    return;
  }
  // The latency of a launch belongs to the launch.
  auto const latency = std::min(time.end, issued + tolerance::kLaunchLatency);
  auto const thread = program_.thread_of(next);
  auto const* const blocking =
      thread == kNone ? nullptr : host_.last_blocking(thread, program_.called(next));
  auto const call = recording.activities[next].call;
  auto const cause = call == kNone ? Cause::launch_bound : host_.cause_of_call(call);
  add_state({{issued, latency}, cause, call}, blocking, next, ledger);
  charge_rest({latency, time.end}, next, ledger);
}

void IdleTime::charge_host(Interval time, Index next, Ledger& ledger) {
  if (time.length() <= 0) {
    return;
  }
  auto thread = next == kNone ? main_thread_ : program_.thread_of(next);
  if (thread == kNone) {
    thread = main_thread_;
  }
  states_.clear();
  host_.append_states(thread, time, states_);
  auto const* const blocking =
      host_.last_blocking(thread, next == kNone ? time.end : program_.called(next));
  for (auto const& state : states_) {
    add_state(state, blocking, next, ledger);
  }
}

void IdleTime::add_state(HostState const& state,
                         Blocking const* blocking,
                         Index next,
                         Ledger& ledger) {
  auto const add = [&](Ns begin, Ns end, Cause cause, Index call) {
    ledger.add({.time = {begin, end},
                .kind = TimeClass::idle,
                .cause = cause,
                .held = next,
                .call = call});
  };
  auto begin = state.time.begin;
  if (blocking != nullptr) {
    auto const thread = next == kNone ? main_thread_ : program_.thread_of(next);
    auto& lead = leads_[thread == kNone ? main_thread_ : thread];
    if (lead.begin != blocking->time.begin) {
      lead = {blocking->time.begin, blocking->time.length()};
    }
    if (state.cause == blocking->cause && begin < blocking->time.end) {
      lead.left -= state.time.length();
    } else if (state.cause > blocking->cause && begin >= blocking->time.end && lead.left > 0) {
      auto const end = std::min(state.time.end, begin + lead.left);
      lead.left -= end - begin;
      add(begin, end, blocking->cause, blocking->call);
      begin = end;
    }
  }
  add(begin, state.time.end, state.cause, state.call);
}

/// Returns the first part of a time in which another process uses a device; one without length if
/// there is none.
Interval IdleTime::turn_of_others(Interval time, Index device) const {
  auto const turns = program_.turns_of_others(device);
  auto const turn = std::ranges::upper_bound(turns, time.begin, {}, &Interval::end);
  return turn == turns.end() || turn->begin >= time.end
             ? Interval{time.end, time.end}
             : Interval{std::max(turn->begin, time.begin), std::min(turn->end, time.end)};
}

/// Whether several streams of a device have work, so that they may wait for each other.
bool IdleTime::has_others(Index device) const {
  return program_.streams_of(device).size() > 1;
}

/// Charges idle time before an activity that was already issued.
void IdleTime::charge_rest(Interval time, Index next, Ledger& ledger) const {
  if (time.length() <= 0) {
    return;
  }
  auto const& recording = program_.recording();
  Charge charge{.time = time, .kind = TimeClass::idle, .cause = Cause::unknown, .held = next};
  if (next == kNone) {
    charge.missing = Missing::calls;
    ledger.add(charge);
    return;
  }
  auto const& activity = recording.activities[next];
  auto const close = tolerance::of_order(recording);
  if (time.length() <= close) {
    // The step from one activity to the next. Nodes of a graph have taken the shortest.
    charge.cause = program_.has_call(next) && activity.graph == kUnknown ? Cause::short_kernels
                                                                         : Cause::true_dependency;
    charge.holder = program_.previous(next);
  } else if (is_pageable(activity) && (program_.has_call(next) || !reads_value(activity))) {
    charge.cause = Cause::pageable_copy;
    charge.call = activity.call;
  } else {
    // Work on another device, or of the host in the stream, may be what it waited for.
    Ns ready = time.begin;
    for (auto const& wait : program_.waits_of(next)) {
      if (wait.known && wait.target != kNone &&
          program_.device_of(wait.target) != program_.device_of(next)) {
        if (auto const end = program_.activity(wait.target).time.end; end > ready) {
          ready = end;
          charge.holder = wait.target;
          charge.wait = wait.sync;
        }
      }
    }
    ready = std::min(ready, time.end);
    if (ready > time.begin) {
      charge.time.end = ready;
      charge.cause = Cause::true_dependency;
      charge.depends = true;
      ledger.add(charge);
      charge_rest({ready, time.end}, next, ledger);
      return;
    }
    bool const in_graph =
        activity.graph != kUnknown ||
        (activity.call != kNone && program_.call(activity.call).kind == CallKind::graph_launch);
    if (auto const turn = turn_of_others(time, program_.device_of(next)); turn.length() > 0) {
      charge_rest({time.begin, turn.begin}, next, ledger);
      charge.time = turn;
      charge.missing = Missing::turns;
      ledger.add(charge);
      charge_rest({turn.end, time.end}, next, ledger);
      return;
    }
    auto const unseen = holds_.unseen_wait(next);
    charge.missing = unseen != Missing::nothing                          ? unseen
                     : in_graph                                          ? Missing::graph_edges
                     : recording.calls.empty() || activity.call == kNone ? Missing::calls
                     : program_.may_lack_waits() && has_others(program_.device_of(next))
                         ? Missing::waits
                         : Missing::nothing;
  }
  ledger.add(charge);
}

}  // namespace msstream::overlap
