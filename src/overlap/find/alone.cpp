// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/alone.hpp"

#include "overlap/find/tolerances.hpp"
#include "overlap/recording/occupancy.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace msstream::overlap {
namespace {

/// Whether a host in this state could not issue, whatever it had to issue.
bool blocks(Cause cause) {
  return cause != Cause::launch_bound && cause != Cause::host_busy;
}

}  // namespace

AloneTime::AloneTime(Program const& program,
                     Host const& host,
                     Collectives const& collectives,
                     Holds const& holds,
                     SharedStreams const& shared,
                     Index device,
                     CauseSet const& harmless)
    : program_(program),
      host_(host),
      collectives_(collectives),
      holds_(holds),
      shared_(shared),
      device_(device),
      harmless_(harmless),
      next_(program, device) {}

void AloneTime::charge(Interval time, Index running, Ledger& ledger) {
  offers_.clear();
  queued_ = next_.from(time.end);
  auto const own = program_.activity(running).stream;
  for (auto const held : queued_) {
    if (program_.activity(held).stream != own) {
      offer_stream(time, running, held);
    }
  }
  offer_own_stream(time, running);
  offer_peers(time, running);
  std::erase_if(offers_, [&](Charge const& offered) { return waits_for_held(offered); });
  Charge const rest{.time = time, .kind = TimeClass::alone, .cause = {}, .holder = running};
  if (offers_.empty()) {
    ledger.add(rest);
    return;
  }
  // Divides the interval where offers begin or end; the first cause by precedence takes each part.
  borders_.assign({time.begin, time.end});
  for (auto const& offered : offers_) {
    borders_.push_back(offered.time.begin);
    borders_.push_back(offered.time.end);
  }
  std::ranges::sort(borders_);
  for (std::size_t i = 0; i + 1 < borders_.size(); ++i) {
    Interval const part{borders_[i], borders_[i + 1]};
    if (part.length() <= 0) {
      continue;
    }
    auto charge = rest;
    bool is_harmless = false;
    Index without_room = kNone;
    for (auto const& offered : offers_) {
      if (offered.time.begin > part.begin || offered.time.end < part.end) {
        continue;
      }
      if (offered.cause && harmless_[static_cast<std::size_t>(*offered.cause)]) {
        is_harmless = true;
        if (offered.cause == Cause::multiprocessors_full && without_room == kNone) {
          without_room = offered.held;
        }
      } else if (!offered.cause) {
        if (!charge.cause && !charge.depends) {
          charge = offered;
        }
      } else if (!charge.cause || *offered.cause < *charge.cause) {
        charge = offered;
      }
    }
    if (is_harmless && charge.cause == Cause::unknown) {
      charge = rest;  // known, and no loss
    }
    if (!charge.cause && without_room != kNone) {
      charge = rest;
      charge.held = without_room;
      charge.is_full = true;
    }
    charge.time = part;
    ledger.add(charge);
  }
}

/// Whether the host waited, in an offered call, for work that a queue of the device keeps back:
/// then the queue counts.
bool AloneTime::waits_for_held(Charge const& offered) const {
  if (offered.cause != Cause::host_synchronization || offered.call == kNone) {
    return false;
  }
  auto const& call = program_.call(offered.call);
  auto const sync = program_.sync_of(offered.call);
  auto stream = kNone;
  if (sync != kNone) {
    auto const& made = program_.recording().syncs[sync];
    stream = made.kind == SyncKind::event ? made.record_stream : made.stream;
  }
  return std::ranges::any_of(offers_, [&](Charge const& other) {
    bool const is_queue = other.cause == Cause::copy_engine || other.cause == Cause::hardware_queue;
    return is_queue && other.time.begin <= offered.time.begin &&
           other.time.end >= offered.time.end &&
           (program_.activity(other.held).call == offered.call ||
            (program_.activity(other.held).stream == stream &&
             program_.called(other.held) < call.time.begin));
  });
}

void AloneTime::offer(Charge charge, Interval within) {
  charge.time = {std::clamp(charge.time.begin, within.begin, within.end),
                 std::clamp(charge.time.end, within.begin, within.end)};
  if (charge.time.length() > 0) {
    offers_.push_back(charge);
  }
}

void AloneTime::offer_stream(Interval time, Index running, Index held) {
  auto const& recording = program_.recording();
  if (recording.calls.empty()) {
    offer_without_calls(time, running, held);
    return;
  }
  auto const issued = program_.issued(held);
  if (issued > time.begin) {
    offer_host({time.begin, std::min(issued, time.end)}, running, held);
  }
  if (issued >= time.end) {
    return;
  }
  Ns const from = std::max(time.begin, issued);
  auto const before = program_.previous(held);
  if (before != kNone && program_.activity(before).time.end > from) {
    return;
  }
  if (auto hold = holds_.of(held, running, from, queued_)) {
    if (hold->cause == Cause::unknown && hold->missing != Missing::turns &&
        is_step(held, running)) {
      return;
    }
    bool const is_launching =
        hold->cause == Cause::unknown && program_.has_call(held) &&
        hold->missing != Missing::turns &&
        program_.activity(held).time.begin - issued <= tolerance::kLaunchLatency;
    if (is_launching) {
      hold = Hold{.cause = Cause::launch_bound};  // the latency of a launch, also while others run
    }
    bool const depends = !hold->cause;
    offer({.time = {std::max(from, hold->from), time.end},
           .kind = depends ? TimeClass::alone : TimeClass::lost,
           .cause = hold->cause,
           .held = hold->queued == kNone ? held : hold->queued,
           .holder = running,
           .wait = hold->wait,
           .depends = depends,
           .missing = hold->missing,
           .is_guess = hold->is_guess},
          time);
  }
}

/// Whether an activity began while `running` still ran, so soon after it could that no more than
/// the step from one activity to the next was between.
bool AloneTime::is_step(Index held, Index running) const {
  auto const begin = program_.activity(held).time.begin;
  return begin < program_.activity(running).time.end &&
         begin - program_.ready(held) <= tolerance::of_order(program_.recording());
}

/// Offers time before an activity that began when `running` had ended, in a recording that does not
/// tell whether it had been issued before.
void AloneTime::offer_without_calls(Interval time, Index running, Index held) {
  auto const& after = program_.activity(held);
  auto const close = tolerance::of_order(program_.recording());
  if (after.time.begin > program_.activity(running).time.end + close) {
    return;
  }
  auto const declared = program_.declared(running, held);
  bool const depends =
      (declared && *declared) ||
      (after.graph != kUnknown && after.graph == program_.activity(running).graph) ||
      holds_.may_wait(held, running, time.begin);
  offer({.time = time,
         .kind = depends ? TimeClass::alone : TimeClass::lost,
         .cause = depends ? std::nullopt : std::optional(Cause::unknown),
         .held = held,
         .holder = running,
         .depends = depends,
         .missing = Missing::calls},
        time);
}

/// Offers the time in which the host had not yet issued `held`, which could have run.
void AloneTime::offer_host(Interval time, Index running, Index held) {
  auto const thread = program_.thread_of(held);
  auto const call = program_.activity(held).call;
  if (thread == kNone || program_.activity(running).call == kNone ||
      holds_.may_wait(held, running, time.begin)) {
    return;
  }
  // Work that the host issued in between counts for itself: only the next activity after `running`,
  // or after the host was held up, was late because of the host.
  auto const* const blocking = host_.last_blocking(thread, program_.called(held));
  auto const& calls = host_.calls_of(thread);
  auto at = std::ranges::lower_bound(calls, call);
  Index last_issue = kNone;
  while (at != calls.begin()) {
    --at;
    if (!program_.issued_by(*at).empty()) {
      last_issue = *at;
      break;
    }
    if (program_.call(*at).time.end < time.begin - tolerance::kLongOperation) {
      break;
    }
  }
  bool const is_next = last_issue != kNone && last_issue == program_.activity(running).call;
  bool const was_blocked =
      blocking != nullptr && blocking->time.end > time.begin &&
      (last_issue == kNone || program_.call(last_issue).time.begin <= blocking->time.begin ||
       (blocking->cause == Cause::queue_is_full &&
        program_.call(last_issue).time.begin < blocking->time.end));
  if (!is_next && !was_blocked) {
    return;
  }
  states_.clear();
  host_.append_states(thread, time, states_);
  for (auto const& state : states_) {
    if (is_next || (blocks(state.cause) && state.time.begin < blocking->time.end)) {
      offer({.time = state.time,
             .kind = TimeClass::lost,
             .cause = state.cause,
             .held = held,
             .holder = running,
             .call = state.call},
            time);
    }
  }
}

void AloneTime::offer_peers(Interval time, Index running) {
  if (auto const waited = collectives_.waited(running); waited > 0) {
    auto const begin = program_.activity(running).time.begin;
    offer({.time = {begin, begin + waited},
           .kind = TimeClass::lost,
           .cause = Cause::peer_skew,
           .held = running,
           .holder = running},
          time);
  }
}

void AloneTime::offer_own_stream(Interval time, Index running) {
  auto const& activity = program_.activity(running);
  if (activity.kind == ActivityKind::copy) {
    offer_own_copy(time, running);
  }
  auto const next = apart_behind(running, time.end);
  if (next == kNone) {
    return;
  }
  auto const& after = program_.activity(next);
  auto const issued = program_.has_call(next) ? program_.issued(next) : time.begin;
  auto const& recording = program_.recording();
  if (activity.shape != kNone && after.shape != kNone &&
      lacking(recording.devices[device_],
              recording.shapes[activity.shape],
              recording.shapes[after.shape])) {
    return;  // on another stream, it would find no room either
  }
  offer({.time = {issued, time.end},
         .kind = TimeClass::lost,
         .cause = Cause::one_stream_two_roles,
         .held = next,
         .holder = running},
        time);
}

/// Returns the work behind `running` in its stream, issued before a time, that needs nothing of it:
/// what follows it, or the first work of another thread, behind the rest of this one's. kNone if
/// there is none.
Index AloneTime::apart_behind(Index running, Ns until) const {
  int const steps = shared_.any() ? 64 : 1;
  auto const close = tolerance::of_order(program_.recording());
  auto before = running;
  for (int step = 0; step < steps; ++step) {
    auto const next = program_.next(before);
    if (next == kNone ||
        program_.activity(next).time.begin > program_.activity(before).time.end + close ||
        (program_.has_call(next) && program_.issued(next) >= until)) {
      return kNone;
    }
    if (auto const declared = program_.declared(running, next)) {
      return *declared ? kNone : next;
    }
    if (program_.thread_of(next) != program_.thread_of(running)) {
      bool const is_apart = shared_.are_apart(running, next) ||
                            (before == running && from_threads_at_once(running, next));
      return is_apart ? next : kNone;
    }
    before = next;
  }
  return kNone;
}

/// Whether two threads issued two activities while both made calls: one waited for the driver's
/// lock while the other one held it. Threads that hand work over do not.
bool AloneTime::from_threads_at_once(Index first, Index second) const {
  auto const a = program_.thread_of(first);
  auto const b = program_.thread_of(second);
  if (a == kNone || b == kNone || a == b) {
    return false;
  }
  auto const overlaps = [&](Index thread, Interval time) {
    auto const& calls = host_.calls_of(thread);
    auto at = std::ranges::lower_bound(
        calls, time.end, {}, [&](Index call) { return program_.call(call).time.begin; });
    if (at == calls.begin()) {
      return false;
    }
    auto const& call = program_.call(*(at - 1));
    return call.time.end > time.begin && call.kind != CallKind::synchronize &&
           call.kind != CallKind::query;
  };
  return overlaps(a, program_.call(program_.activity(second).call).time) ||
         overlaps(b, program_.call(program_.activity(first).call).time);
}

}  // namespace msstream::overlap
