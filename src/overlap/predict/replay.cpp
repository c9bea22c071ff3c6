// SPDX-License-Identifier: Apache-2.0
#include "overlap/predict/replay.hpp"

#include "overlap/find/tolerances.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace msstream::overlap {
Replay::Replay(Program const& program,
               Host const& host,
               Collectives const& collectives,
               std::span<Ledger const> ledgers,
               Interval window)
    : program_(program),
      host_(host),
      collectives_(collectives),
      window_(window),
      start_(window.begin),
      places_(program.recording().activities.size(), kNone),
      round_of_stream_(program.recording().streams.size(), 0) {
  auto const& recording = program.recording();
  auto const& activities = recording.activities;
  Ns end = window.begin;
  for (Index i = 0; i < activities.size(); ++i) {
    auto const& time = activities[i].time;
    if (time.begin >= window.begin || time.end > window.begin) {
      places_[i] = static_cast<Index>(activities_.size());
      activities_.push_back(i);
      end = std::max(end, time.end);
    }
    if (time.begin >= window.end) {
      end = window.end;
      break;
    }
  }
  tail_ = std::max<Ns>(window.end - end, 0);
  if (!recording.has_syncs && !recording.has_dependencies) {
    for (auto const& call : recording.calls) {
      if (call.kind == CallKind::wait_event) {
        unknown_waits_.push_back(call.time.begin);
      }
    }
  }
  for (auto const& ledger : ledgers) {
    auto const& held = ledger.of(Cause::collective_holds_sms).held;
    held_by_collectives_.insert(held.begin(), held.end());
  }
  order_by_end();
  find_overheads();
  take_steps();
  take_work();
  find_pinned_rates();
  find_engines();
}

Ns Replay::recorded_ns() const {
  return window_.end - start_;
}

/// Takes the calls that issue the window's activities, and all others of their time.
void Replay::take_steps() {
  auto const& recording = program_.recording();
  Index first = kNone;
  Index last = 0;
  for (auto const i : activities_) {
    if (auto const call = recording.activities[i].call; call != kNone && !runs_at_begin(i)) {
      first = std::min(first, call);
      last = std::max(last, call);
    }
  }
  if (first == kNone) {
    return;
  }
  // Calls long before the window issued work that waited for what is not in it.
  start_ = std::max(std::min(start_, recording.calls[first].time.begin),
                    window_.begin - tolerance::kLaunchLatency);
  // Threads that only wait or ask for others do not count.
  std::vector<bool> issues(std::max<std::size_t>(recording.threads.size(), 1), false);
  for (Index call = first; call <= last; ++call) {
    if (!program_.issued_by(call).empty()) {
      issues[recording.calls[call].thread] = true;
    }
  }
  // The calls that the threads were in when the window began come first.
  for (Index call = 0; call < first; ++call) {
    if (recording.calls[call].time.end > window_.begin && issues[recording.calls[call].thread]) {
      first = call;
    }
  }
  std::vector<Index> previous(issues.size(), 0);
  Index ended_last = 0;  // the step of any thread that ended last so far
  for (Index call = first; call <= last; ++call) {
    auto const& made = recording.calls[call];
    if (!issues[made.thread]) {
      continue;
    }
    auto const poll = host_.poll_of(call);
    if (poll != kNone && poll != call && poll >= first) {
      continue;  // a loop of queries is one wait
    }
    auto const time = time_of(call);
    Step step{.call = call, .after = previous[made.thread]};
    auto const end_of = [&](Index place) {
      return place == 0 ? start_ : time_of(steps_[place - 1].call).end;
    };
    Interval gap{end_of(step.after), time.begin};
    step.long_gap = host_.is_long_gap(made.thread, gap);
    if (step.long_gap && ended_last != 0 && end_of(ended_last) > gap.begin &&
        end_of(ended_last) <= time.begin) {
      // Another thread handed the work over.
      step.after = ended_last;
      gap.begin = end_of(ended_last);
      step.long_gap = host_.is_long_gap(made.thread, gap);
    }
    step.gap = std::max<Ns>(gap.length(), 0);
    step.recording = time_in(recorder_, made.thread, gap);
    step.loading = time_in(loading_, made.thread, gap);
    find_targets(step);
    steps_.push_back(step);
    auto const place = static_cast<Index>(steps_.size());
    previous[made.thread] = place;
    if (ended_last == 0 || time.end >= end_of(ended_last)) {
      ended_last = place;
    }
  }
}

/// Returns the part of a call's time that is replayed; of the first query of a loop, that of the
/// loop.
Interval Replay::time_of(Index call) const {
  auto const& made = program_.call(call);
  auto time = made.time;
  if (host_.poll_of(call) == call) {
    auto const* const loop = host_.last_blocking(made.thread, time.begin + 1);
    time.end = loop == nullptr ? time.end : std::max(time.end, loop->time.end);
  }
  return clipped(time, {start_, window_.end});
}

/// Orders the activities of each device by their ends.
void Replay::order_by_end() {
  auto const end_of = [this](Index i) { return program_.activity(i).time.end; };
  for (Index device = 0; device < program_.recording().devices.size(); ++device) {
    auto const activities = program_.of_device(device);
    auto& ends = by_end_.emplace_back(activities.begin(), activities.end());
    if (!std::ranges::is_sorted(ends, {}, end_of)) {
      std::ranges::stable_sort(ends, {}, end_of);
    }
  }
}

/// Returns the activities of a device that ended after a time and until another one, by their ends.
std::span<Index const> Replay::ended_in(Interval time, Index device) const {
  auto const end_of = [this](Index i) { return program_.activity(i).time.end; };
  auto const first = std::ranges::upper_bound(by_end_[device], time.begin, {}, end_of);
  return {first, std::ranges::upper_bound(first, by_end_[device].end(), time.end, {}, end_of)};
}

/// Returns the activity of a device that had ended last at a time, and shortly before; kNone if
/// there is none such.
Index Replay::ended_at(Ns time, Index device) const {
  auto const ended = ended_in({time - tolerance::of_order(program_.recording()), time}, device);
  return ended.empty() ? kNone : ended.back();
}

/// Takes the activities for which a call waited that ended in its time: of each stream, or of one,
/// the last one.
void Replay::take_targets(Interval time, Index stream) {
  auto const& recording = program_.recording();
  ++round_;
  for (Index device = 0; device < recording.devices.size(); ++device) {
    if (stream != kNone && recording.streams[stream].device != device) {
      continue;
    }
    auto const ended = ended_in(time, device);
    for (std::size_t place = ended.size(); place-- > 0;) {
      auto const i = ended[place];
      auto const own = program_.activity(i).stream;
      if ((stream == kNone || stream == own) && round_of_stream_[own] != round_) {
        round_of_stream_[own] = round_;
        if (is_inside(i)) {
          targets_.push_back(i);
        }
        if (stream != kNone) {
          break;
        }
      }
    }
  }
}

/// Finds the activities that a call waited for: of each stream, the last one that had ended.
void Replay::find_targets(Step& step) {
  auto const& recording = program_.recording();
  auto call = recording.calls[step.call];
  call.time = time_of(step.call);
  step.first_target = static_cast<std::uint32_t>(targets_.size());
  auto const add = [&](Index i) {
    if (i != kNone && is_inside(i) && program_.activity(i).time.end > call.time.begin &&
        program_.activity(i).time.end <= call.time.end) {
      targets_.push_back(i);
    }
  };
  auto const issued = program_.issued_by(step.call);
  if (call.kind == CallKind::copy || call.kind == CallKind::fill) {
    for (auto const i : issued) {
      add(i);
    }
  } else if (call.kind == CallKind::query && host_.poll_of(step.call) != kNone) {
    // The host asked for what ended last before the last query.
    Index asked = kNone;
    for (Index device = 0; device < recording.devices.size(); ++device) {
      auto const ended = ended_in(call.time, device);
      if (!ended.empty() && (asked == kNone || program_.activity(ended.back()).time.end >
                                                   program_.activity(asked).time.end)) {
        asked = ended.back();
      }
    }
    add(asked);
  } else if (call.kind == CallKind::synchronize || call.kind == CallKind::release) {
    auto const sync = program_.sync_of(step.call);
    auto stream = sync == kNone ? kNone : recording.syncs[sync].stream;
    auto at = call.time.begin;
    if (sync != kNone && recording.syncs[sync].kind == SyncKind::event) {
      auto const record = recording.syncs[sync].record_call;
      stream = recording.syncs[sync].record_stream;
      at = record == kNone ? at : recording.calls[record].time.begin;
    }
    take_targets(call.time, stream);
    if (stream != kNone) {
      for (auto const& wait : program_.pending_waits(stream, at)) {
        add(wait.target);
      }
    }
  }
  step.targets = static_cast<std::uint32_t>(targets_.size()) - step.first_target;
  step.waits = step.targets > 0;
  Ns waited_until = call.time.begin;
  for (auto place = step.first_target; place < targets_.size(); ++place) {
    waited_until = std::max(waited_until, program_.activity(targets_[place]).time.end);
  }
  step.cost = call.time.end - waited_until;
  if (call.kind == CallKind::copy && step.waits) {
    step.cost += std::clamp<Ns>(
        program_.activity(issued.front()).time.begin - call.time.begin, 0, tolerance::kIssue);
  }
}

/// Returns what an activity seems to have waited for where the recording does not tell for what
/// streams waited: the host made such a wait since it called for the activity before in the stream,
/// and this one began when work of another stream ended, long after it could. kNone otherwise.
Index Replay::presumed_target(Index activity) const {
  auto const close = tolerance::of_order(program_.recording());
  auto const begin = program_.activity(activity).time.begin;
  auto const before = program_.previous(activity);
  auto const since = before == kNone ? start_ : program_.called(before);
  auto const wait = std::ranges::upper_bound(unknown_waits_, since);
  if (wait == unknown_waits_.end() || *wait > program_.called(activity) ||
      begin - program_.ready(activity) <= close) {
    return kNone;
  }
  return ended_at(begin, program_.device_of(activity));
}

}  // namespace msstream::overlap
