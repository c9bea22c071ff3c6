// SPDX-License-Identifier: Apache-2.0
#include "overlap/predict/replay.hpp"

#include "overlap/find/tolerances.hpp"
#include "overlap/recording/occupancy.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
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

void Replay::take_work() {
  auto const& recording = program_.recording();
  std::vector<Index> step_of_call;
  if (!steps_.empty()) {
    step_of_call.assign(steps_.back().call - steps_.front().call + 1, 0);
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      step_of_call[steps_[s].call - steps_.front().call] = static_cast<Index>(s + 1);
    }
  }
  // Activities that overlapped others may have been slower for it: the replay slows them itself.
  std::map<std::pair<NameId, Index>, Ns> least;
  auto const key_of = [&](Index i) {
    auto const& activity = recording.activities[i];
    return std::pair(activity.name, activity.shape);
  };
  std::vector<Ns> ends(recording.devices.size(), 0);
  std::vector<bool> alone(activities_.size(), true);
  std::vector<Index> last(recording.devices.size(), kNone);
  for (std::size_t place = 0; place < activities_.size(); ++place) {
    auto const i = activities_[place];
    auto const device = program_.device_of(i);
    auto const& time = recording.activities[i].time;
    if (last[device] != kNone && time.begin < ends[device]) {
      alone[place] = false;
      alone[last[device]] = false;
    }
    if (last[device] == kNone || time.end >= ends[device]) {
      ends[device] = time.end;
      last[device] = static_cast<Index>(place);
    }
  }
  for (std::size_t place = 0; place < activities_.size(); ++place) {
    auto const i = activities_[place];
    if (alone[place] && recording.activities[i].kind == ActivityKind::kernel) {
      auto const length = recording.activities[i].time.length();
      auto [found, is_new] = least.try_emplace(key_of(i), length);
      found->second = std::min(found->second, length);
    }
  }
  std::fill(ends.begin(), ends.end(), 0);
  for (std::size_t place = 0; place < activities_.size(); ++place) {
    auto const i = activities_[place];
    auto const& activity = recording.activities[i];
    auto const device = program_.device_of(i);
    Work work{.device_ns = activity.time.length()};
    if (!alone[place]) {
      // A kernel that is many times as long has other arguments, and more to do.
      constexpr Ns kMostSlower = 4;
      if (auto const found = least.find(key_of(i));
          found != least.end() && work.device_ns <= kMostSlower * found->second) {
        work.device_ns = std::min(work.device_ns, std::max(found->second, work.device_ns / 2));
      }
    }
    auto const inside = time_in_window(i);
    if (inside.length() < activity.time.length()) {
      work.device_ns = std::min(work.device_ns, inside.length());
    }
    auto const ready = std::max(program_.ready(i), window_.begin);
    auto const delay = std::max<Ns>(inside.begin - ready, 0);
    // A long delay until the device had room or ended something is due to that, which the replay
    // repeats. A copy that goes on holds nothing of other kinds.
    constexpr Ns kParts = 4;
    auto const close = tolerance::of_order(recording);
    bool const was_busy = delay > close / kParts && (ends[device] > inside.begin - close ||
                                                     ended_at(inside.begin, device) != kNone);
    work.latency = was_busy ? close / kParts : delay;
    if (activity.kind != ActivityKind::copy) {
      auto const others_end =
          std::exchange(ends[device], std::max(ends[device], activity.time.end));
      auto const& gpu = recording.devices[device];
      auto const occupancy = activity.shape == kNone
                                 ? std::nullopt
                                 : occupancy_of(gpu, recording.shapes[activity.shape]);
      work.sms = occupancy ? occupancy->wanted_sms() : std::max(gpu.sms, 2) / 2;
      work.filled_sms = occupancy ? occupancy->filled_sms() : work.sms;
      work.fills = occupancy && occupancy->fills();
      constexpr double kMostRegisters = 0.6;
      work.one_wave = occupancy && occupancy->is_one_wave();
      auto const found = least.find(key_of(i));
      auto const rest = std::min(others_end, inside.end) - inside.begin;
      if (work.fills && work.one_wave && found != least.end() && rest > close &&
          inside.length() == activity.time.length() && others_end < activity.time.end &&
          activity.time.length() - found->second >= rest - std::min(found->second, rest) / kParts) {
        work.begins_in_parts = true;
        work.device_ns = found->second;
      }
      work.computes = occupancy && occupancy->register_share > kMostRegisters;
    }
    if (activity.call != kNone && !steps_.empty() && activity.call >= steps_.front().call &&
        activity.call <= steps_.back().call) {
      work.step = step_of_call[activity.call - steps_.front().call];
      work.issued = std::max<Ns>(
          std::min(program_.issued(i), inside.begin) - time_of(activity.call).begin, 0);
    }
    work_.push_back(work);
  }
  fit_to_recording();
}

/// Fits the multiprocessors that kernels want to what the recording shows. Kernels of one launch
/// that ran beside others, and were not as much slower as the replay would make them, found room on
/// multiprocessors that others used as well: they want fewer. Those that were slower shared
/// something else, such as the memory's bandwidth: they want more, at most the whole device.
void Replay::fit_to_recording() {
  auto const& recording = program_.recording();
  struct Slower {
    double recorded = 0;
    double alone = 0;
    double replayed = 0;
  };
  /// Kernels of one launch that ran beside others.
  struct Beside {
    Slower time;
    double wanted = 0;  ///< multiprocessors, by all that ran, multiplied by the time
  };
  std::map<std::pair<NameId, Index>, Slower> kinds;
  std::map<std::pair<NameId, Index>, Beside> kinds_beside;
  auto const key_of = [&](std::size_t place) {
    auto const& activity = program_.activity(activities_[place]);
    return std::pair(activity.name, activity.shape);
  };
  auto const is_counted = [&](std::size_t place) {
    auto const i = activities_[place];
    return program_.activity(i).shape != kNone && work_[place].sms > 0 && !work_[place].fills &&
           time_in_window(i) == program_.activity(i).time;
  };
  for (Index device = 0; device < recording.devices.size(); ++device) {
    double const sms =
        recording.devices[device].sms > 0 ? recording.devices[device].sms : kAssumedSms;
    // Passes over begins and ends, with the time that the work so far would have taken.
    std::vector<std::tuple<Ns, bool, std::size_t>> changes;
    for (std::size_t place = 0; place < activities_.size(); ++place) {
      auto const time = time_in_window(activities_[place]);
      if (program_.device_of(activities_[place]) == device && work_[place].sms > 0 &&
          time.length() > 0) {
        changes.emplace_back(time.begin, true, place);
        changes.emplace_back(time.end, false, place);
      }
    }
    std::ranges::sort(changes);
    struct Begun {
      double taken = 0;
      double area = 0;
    };
    std::unordered_map<std::size_t, Begun> begun;
    double taken = 0;
    double wanted = 0;
    double area = 0;
    Ns at = 0;
    for (auto const& [time, begins, place] : changes) {
      taken += static_cast<double>(time - at) * std::max(1.0, wanted / sms);
      area += static_cast<double>(time - at) * wanted;
      at = time;
      wanted += begins ? work_[place].sms : -work_[place].sms;
      if (begins) {
        begun[place] = {taken, area};
        continue;
      }
      auto const since = begun.extract(place).mapped();
      if (is_counted(place)) {
        auto const recorded =
            static_cast<double>(program_.activity(activities_[place]).time.length());
        auto const alone = static_cast<double>(work_[place].device_ns);
        auto const add = [&](Slower& kind) {
          kind.recorded += recorded;
          kind.alone += alone;
          kind.replayed += taken - since.taken;
        };
        add(kinds[key_of(place)]);
        auto const all = (area - since.area) / recorded;
        if (all > 1.5 * work_[place].sms && !collectives_.is_one(activities_[place])) {
          auto& beside = kinds_beside[key_of(place)];
          add(beside.time);
          beside.wanted += area - since.area;
        }
      }
    }
  }
  for (std::size_t place = 0; place < activities_.size(); ++place) {
    if (!is_counted(place)) {
      continue;
    }
    auto const& kind = kinds[key_of(place)];
    auto& work = work_[place];
    if (kind.alone > 0 && kind.replayed > kind.recorded) {
      double const slower = kind.recorded / kind.alone;
      double const share = slower * kind.recorded / kind.replayed;
      if (share < 1) {
        work.sms = std::max(static_cast<int>(share * work.sms), 1);
        work.filled_sms = std::min(work.filled_sms, work.sms);
        continue;
      }
    }
    constexpr double kSlower = 1.1;
    auto const beside = kinds_beside.find(key_of(place));
    if (beside == kinds_beside.end()) {
      continue;
    }
    auto const& [time, wanted] = beside->second;
    // The replayed times are those of kernels that take as long as recorded, also alone.
    if (time.alone > 0 && time.recorded * time.recorded > kSlower * time.replayed * time.alone) {
      auto const device = program_.device_of(activities_[place]);
      int const all =
          recording.devices[device].sms > 0 ? recording.devices[device].sms : kAssumedSms;
      double const share = time.recorded / time.alone * all * time.recorded / wanted;
      work.sms = std::clamp(static_cast<int>(share * work.sms), work.sms, std::max(all, work.sms));
      work.filled_sms = std::max(work.filled_sms, work.sms);
    }
  }
}

}  // namespace msstream::overlap
