// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/program.hpp"

#include "overlap/find/tolerances.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::overlap {

Program::Program(Recording const& recording) : recording_(recording) {
  look_for_waits();
  order_streams();
  find_issues();
  join_calls();
  find_graphs_at_once();
  join_waits();
  if (recording_.has_dependencies) {
    needs_begin_.assign(recording_.activities.size() + 1, 0);
    for (auto const& dependency : recording_.dependencies) {
      ++needs_begin_[dependency.after + 1];
    }
    for (std::size_t i = 1; i < needs_begin_.size(); ++i) {
      needs_begin_[i] += needs_begin_[i - 1];
    }
    needs_.resize(recording_.dependencies.size());
    auto place = needs_begin_;
    for (auto const& dependency : recording_.dependencies) {
      needs_[place[dependency.after]++] = dependency.before;
    }
  }
}

void Program::look_for_waits() {
  bool has_others = false;
  for (auto const& call : recording_.calls) {
    bool const issues = call.kind == CallKind::launch || call.kind == CallKind::graph_launch ||
                        call.kind == CallKind::copy || call.kind == CallKind::fill;
    has_others = has_others || !issues;
    calls_waits_ = calls_waits_ || call.kind == CallKind::wait_event;
  }
  may_lack_waits_ =
      !recording_.has_syncs && !recording_.has_dependencies && (calls_waits_ || !has_others);
}

void Program::order_streams() {
  auto const& activities = recording_.activities;
  by_device_.resize(recording_.devices.size());
  turns_of_others_.resize(recording_.devices.size());
  by_stream_.resize(recording_.streams.size());
  streams_by_device_.resize(recording_.devices.size());
  place_in_stream_.assign(activities.size(), 0);
  for (Index i = 0; i < activities.size(); ++i) {
    auto& stream = by_stream_[activities[i].stream];
    place_in_stream_[i] = static_cast<Index>(stream.size());
    stream.push_back(i);
    by_device_[device_of(i)].push_back(i);
  }
  for (Index stream = 0; stream < by_stream_.size(); ++stream) {
    if (!by_stream_[stream].empty()) {
      streams_by_device_[recording_.streams[stream].device].push_back(stream);
    }
  }
}

void Program::find_issues() {
  auto const& activities = recording_.activities;
  issued_.resize(activities.size());
  std::map<std::int64_t, std::pair<Ns, Ns>> graphs;  // of each, the begin of its run and its end
  std::unordered_map<Index, Ns> first_nodes;         // of each launch of a graph, the first begin
  for (Index i = 0; i < activities.size(); ++i) {
    auto const& activity = activities[i];
    auto& issued = issued_[i];
    issued = activity.time.begin;
    if (activity.call != kNone) {
      auto const& call = recording_.calls[activity.call];
      if (call.kind == CallKind::graph_launch) {
        issued = first_nodes.try_emplace(activity.call, issued).first->second;
      }
      // A launch never waits for its work, which may end before the call does.
      bool const waits = call.time.end >= activity.time.end && call.kind != CallKind::launch &&
                         call.kind != CallKind::graph_launch;
      issued = std::min(issued, waits ? call.time.begin + tolerance::kIssue : call.time.end);
    } else if (activity.graph != kUnknown) {
      // Nodes of one run of a graph follow each other closely.
      auto [run, is_new] =
          graphs.try_emplace(activity.graph, activity.time.begin, activity.time.end);
      if (!is_new && activity.time.begin > run->second.second + 4 * tolerance::kLaunchLatency) {
        run->second = {activity.time.begin, activity.time.end};
      }
      run->second.second = std::max(run->second.second, activity.time.end);
      issued = run->second.first;
    }
  }
  // Work of which the call was not recorded was issued before what follows it in its stream.
  for (auto const& stream : by_stream_) {
    for (std::size_t place = stream.size(); place-- > 1;) {
      auto const& activity = activities[stream[place - 1]];
      if (activity.call == kNone && activity.graph == kUnknown) {
        auto& issued = issued_[stream[place - 1]];
        issued = std::min(issued, called(stream[place]) - 1);
      }
    }
  }
  called_in_stream_.resize(by_stream_.size());
  for (std::size_t stream = 0; stream < by_stream_.size(); ++stream) {
    auto& times = called_in_stream_[stream];
    times.reserve(by_stream_[stream].size());
    for (auto const i : by_stream_[stream]) {
      times.push_back(times.empty() ? called(i) : std::max(times.back(), called(i)));
    }
  }
}

void Program::join_calls() {
  auto const& calls = recording_.calls;
  if (calls.empty()) {
    return;
  }
  issued_begin_.assign(calls.size() + 1, 0);
  for (auto const& activity : recording_.activities) {
    if (activity.call != kNone) {
      ++issued_begin_[activity.call + 1];
    }
  }
  for (std::size_t i = 1; i < issued_begin_.size(); ++i) {
    issued_begin_[i] += issued_begin_[i - 1];
  }
  issued_activities_.resize(issued_begin_.back());
  auto place = issued_begin_;
  for (Index i = 0; i < recording_.activities.size(); ++i) {
    if (auto const call = recording_.activities[i].call; call != kNone) {
      issued_activities_[place[call]++] = i;
    }
  }
  sync_of_call_.assign(calls.size(), kNone);
  for (Index i = 0; i < recording_.syncs.size(); ++i) {
    if (auto const call = recording_.syncs[i].call; call != kNone && sync_of_call_[call] == kNone) {
      sync_of_call_[call] = i;
    }
  }
}

void Program::find_graphs_at_once() {
  struct Run {
    Index call = kNone;
    Ns end = 0;
  };
  std::map<std::pair<Index, std::int64_t>, Run> latest;
  auto const& activities = recording_.activities;
  for (Index i = 0; i < activities.size(); ++i) {
    auto const& activity = activities[i];
    if (activity.graph == kUnknown || activity.call == kNone) {
      continue;
    }
    auto const graph = std::pair(device_of(i), activity.graph);
    auto& run = latest[graph];
    if (run.call != activity.call) {
      if (run.call != kNone && activity.time.begin + 2 * recording_.clock_step < run.end) {
        graphs_at_once_.insert(graph);
      }
      run.call = activity.call;
    }
    run.end = std::max(run.end, activity.time.end);
  }
}

void Program::join_waits() {
  waits_by_stream_.resize(by_stream_.size());
  for (Index i = 0; i < recording_.syncs.size(); ++i) {
    auto const& sync = recording_.syncs[i];
    if (sync.kind != SyncKind::wait || sync.stream == kNone) {
      continue;
    }
    Wait wait{.sync = i, .target = kNone, .called = sync.time.begin, .recorded = 0, .known = false};
    if (sync.call != kNone) {
      wait.called = recording_.calls[sync.call].time.begin;
    }
    wait.recorded =
        sync.record_call == kNone ? wait.called : recording_.calls[sync.record_call].time.begin;
    if (sync.record_stream != kNone) {
      wait.known = true;
      wait.target = last_issued(sync.record_stream, wait.recorded);
    }
    waits_by_stream_[sync.stream].push_back(wait);
  }
  for (auto& waits : waits_by_stream_) {
    std::ranges::stable_sort(waits, {}, &Wait::called);
  }
}

Ns Program::called(Index activity) const {
  auto const call = this->activity(activity).call;
  return call == kNone ? issued_[activity] : this->call(call).time.begin;
}

Index Program::last_issued(Index stream, Ns before) const {
  auto const& times = called_in_stream_[stream];
  auto const place = std::ranges::lower_bound(times, before) - times.begin();
  return place == 0 ? kNone : by_stream_[stream][static_cast<std::size_t>(place - 1)];
}

Ns Program::ready(Index activity) const {
  Ns ready = issued(activity);
  if (auto const before = previous(activity); before != kNone) {
    ready = std::max(ready, this->activity(before).time.end);
  }
  for (auto const& wait : waits_of(activity)) {
    if (wait.target != kNone) {
      ready = std::max(ready, this->activity(wait.target).time.end);
    }
  }
  return ready;
}

std::span<Wait const> Program::waits_of(Index activity) const {
  auto const stream = this->activity(activity).stream;
  auto const& waits = waits_by_stream_[stream];
  if (waits.empty()) {
    return {};
  }
  auto const place = place_in_stream_[activity];
  auto const& times = called_in_stream_[stream];
  auto first = waits.begin();
  if (place > 0) {
    first = std::ranges::upper_bound(waits, times[place - 1], {}, &Wait::called);
  }
  auto const last = std::ranges::upper_bound(first, waits.end(), times[place], {}, &Wait::called);
  return {first, last};
}

std::span<Wait const> Program::pending_waits(Index stream, Ns at) const {
  auto const& waits = waits_by_stream_[stream];
  auto const& times = called_in_stream_[stream];
  auto const place = std::ranges::lower_bound(times, at);
  auto const first = place == times.begin()
                         ? waits.begin()
                         : std::ranges::upper_bound(waits, *(place - 1), {}, &Wait::called);
  return {first, std::ranges::lower_bound(first, waits.end(), at, {}, &Wait::called)};
}

std::span<Index const> Program::issued_by(Index call) const {
  if (issued_begin_.empty()) {
    return {};
  }
  return std::span(issued_activities_)
      .subspan(issued_begin_[call], issued_begin_[call + 1] - issued_begin_[call]);
}

std::optional<bool> Program::declared(Index before, Index after) const {
  if (!recording_.has_dependencies) {
    return std::nullopt;
  }
  constexpr std::size_t kMostVisited = 4'096;
  std::vector<Index> open{after};
  for (std::size_t at = 0; at < open.size(); ++at) {
    auto const i = open[at];
    for (auto place = needs_begin_[i]; place < needs_begin_[i + 1]; ++place) {
      auto const needed = needs_[place];
      if (needed == before) {
        return true;
      }
      // An activity that began before `before` ended does not need it.
      if (activity(needed).time.begin >= activity(before).time.end &&
          std::ranges::find(open, needed) == open.end()) {
        open.push_back(needed);
      }
    }
    if (open.size() > kMostVisited) {
      return std::nullopt;
    }
  }
  return false;
}

NextActivities::NextActivities(Program const& program, Index device) : program_(program) {
  for (auto const stream : program.streams_of(device)) {
    all_.push_back(program.of_stream(stream).front());
  }
  std::ranges::sort(all_, std::ranges::greater());
}

std::span<Index const> NextActivities::from(Ns time) {
  constexpr std::size_t kMostStreams = 64;
  bool is_new = first_.empty();
  // Activities are ordered by their begin.
  while (!all_.empty() && program_.activity(all_.back()).time.begin < time) {
    auto next = program_.next(all_.back());
    all_.pop_back();
    while (next != kNone && program_.activity(next).time.begin < time) {
      next = program_.next(next);
    }
    if (next != kNone) {
      all_.insert(std::ranges::upper_bound(all_, next, std::ranges::greater()), next);
    }
    is_new = true;
  }
  if (is_new) {
    first_.assign(all_.end() - static_cast<std::ptrdiff_t>(std::min(all_.size(), kMostStreams)),
                  all_.end());
    std::ranges::sort(first_, {}, [&](Index i) { return program_.activity(i).stream; });
  }
  return first_;
}

}  // namespace msstream::overlap
