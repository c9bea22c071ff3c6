// SPDX-License-Identifier: Apache-2.0
#include "overlap/live/live_recording.hpp"

#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::overlap {
namespace {

using detail::HostCall;

bool is_replay(std::string_view name) {
  return name == "replay" || name.ends_with("/replay");
}

/// Makes a recording of watched steps.
class LiveBuilder {
 public:
  explicit LiveBuilder(WatchedSteps const& watched) : watched_(watched) {
    auto const& operations = watched.trace.operations();
    for (std::size_t i = 0; i < operations.size(); ++i) {
      auto const position = watched.positions[i];
      operations_[position.stream].emplace(position.number, static_cast<Index>(i));
      streams_.emplace(position.stream, static_cast<Index>(operations[i].stream));
    }
    calls_of_.assign(operations.size(), kNone);
  }

  [[nodiscard]] Recording build() {
    recording_.origin = "this program";
    recording_.source = fmt::format("msstream on the runtime {}", watched_.runtime);
    Device device;
    device.number = kUnknown;
    device.name = fmt::format("the device of the runtime {}", watched_.runtime);
    recording_.devices.push_back(std::move(device));
    add_streams();
    add_calls();
    add_activities();
    add_waits();
    add_steps(watched_, thread_of(watched_.thread), recording_, [this](double ns) {
      return host_time(ns);
    });
    add_notes();
    recording_.has_calls = true;
    recording_.has_syncs = true;
    recording_.has_stream_types = true;
    recording_.has_dependencies = true;
    recording_.sort();
    return std::move(recording_);
  }

 private:
  [[nodiscard]] Ns host_time(double ns) const {
    return static_cast<Ns>(std::llround(std::max(ns - watched_.begin_ns, 0.0)));
  }

  /// Returns the place of an operation in the trace; kNone for other positions.
  [[nodiscard]] Index operation_at(order::Position position) const {
    auto const stream = operations_.find(position.stream);
    if (stream == operations_.end()) {
      return kNone;
    }
    auto const found = stream->second.find(position.number);
    return found == stream->second.end() ? kNone : found->second;
  }
  /// Returns the last recorded operation up to a position of a stream; kNone if there is none.
  [[nodiscard]] Index last_up_to(order::Position position) const {
    auto const stream = operations_.find(position.stream);
    if (stream == operations_.end()) {
      return kNone;
    }
    auto const after = stream->second.upper_bound(position.number);
    return after == stream->second.begin() ? kNone : std::prev(after)->second;
  }

  [[nodiscard]] Index thread_of(std::thread::id id) {
    auto const [at, is_new] = threads_.emplace(id, static_cast<Index>(recording_.threads.size()));
    if (is_new) {
      // Numbers in the order of appearance, so that equal runs give equal reports.
      auto const number = static_cast<std::int64_t>(recording_.threads.size()) + 1;
      recording_.threads.push_back({.process = 1, .number = number, .name = 0});
    }
    return at->second;
  }

  void add_streams() {
    for (std::size_t i = 0; i < watched_.trace.streams().size(); ++i) {
      Stream stream;
      stream.number = static_cast<std::int64_t>(i);
      stream.type = StreamType::non_blocking;
      stream.name = recording_.names.id_of(watched_.trace.streams()[i].name);
      recording_.streams.push_back(stream);
    }
  }

  [[nodiscard]] Index add_call(Interval time, char const* name, Index thread, CallKind kind) {
    recording_.calls.push_back(
        {.time = time, .name = recording_.names.id_of(name), .thread = thread, .kind = kind});
    return static_cast<Index>(recording_.calls.size() - 1);
  }

  void add_launch(Interval time, Index thread, Index operation) {
    if (operation == kNone) {
      (void)add_call(time, "launch", thread, CallKind::launch);
      return;
    }
    auto const& launched = watched_.trace.operations()[operation];
    bool const replays = is_replay(launched.name);
    bool const copies = launched.kind != StreamKind::compute;
    calls_of_[operation] = replays
                               ? add_call(time, "launch of a graph", thread, CallKind::graph_launch)
                           : copies ? add_call(time, "copy", thread, CallKind::copy)
                                    : add_call(time, "launch", thread, CallKind::launch);
  }

  void add_calls() {
    (void)thread_of(watched_.thread);
    for (auto const& entry : watched_.calls) {
      Interval const time{host_time(entry.begin_ns), host_time(entry.end_ns)};
      auto const thread = thread_of(entry.thread);
      switch (entry.call.kind) {
        case HostCall::launch:
          add_launch(time, thread, operation_at(entry.call.position));
          break;
        case HostCall::wait: {
          auto const call = add_call(time, "wait of a stream", thread, CallKind::wait_event);
          waits_.emplace_back(entry.call, call);
          break;
        }
        case HostCall::synchronize: {
          if (entry.begin_ns >= watched_.end_ns) {
            break;  // the recording's own wait for the end of the steps
          }
          auto const call = add_call(time, "synchronize", thread, CallKind::synchronize);
          recording_.syncs.push_back({.time = time, .kind = SyncKind::event, .call = call});
          break;
        }
      }
    }
  }

  /// Returns the time of the host, since the recording began, at which the device's clock was 0:
  /// the first at which no operation begins before its launch.
  [[nodiscard]] double device_zero() const {
    double zero = 0;
    for (std::size_t i = 0; i < calls_of_.size(); ++i) {
      if (calls_of_[i] != kNone) {
        auto const launched = static_cast<double>(recording_.calls[calls_of_[i]].time.begin);
        zero = std::max(zero, launched - watched_.trace.operations()[i].begin_ns);
      }
    }
    return zero;
  }

  void add_activities() {
    auto const zero = device_zero();
    for (std::size_t i = 0; i < calls_of_.size(); ++i) {
      auto const& operation = watched_.trace.operations()[i];
      Activity activity;
      activity.time = {std::llround(zero + operation.begin_ns),
                       std::llround(zero + operation.end_ns)};
      // The recorded begin is when the stream was free, even if the host had launched nothing yet.
      if (calls_of_[i] != kNone) {
        auto const launched = recording_.calls[calls_of_[i]].time.end;
        if (launched < activity.time.end) {
          activity.time.begin = std::max(activity.time.begin, launched);
        }
      }
      activity.name = recording_.names.id_of(operation.name);
      activity.stream = static_cast<Index>(operation.stream);
      activity.call = calls_of_[i];
      if (operation.kind != StreamKind::compute) {
        activity.kind = ActivityKind::copy;
        activity.direction =
            operation.kind == StreamKind::h2d ? CopyDirection::h2d : CopyDirection::d2h;
      } else if (is_replay(operation.name)) {
        activity.kind = ActivityKind::graph;
        ++replays_;
      }
      recording_.activities.push_back(activity);
      for (auto const before : operation.after) {
        recording_.dependencies.push_back({static_cast<Index>(before), static_cast<Index>(i)});
      }
    }
  }

  /// Adds the waits of streams. As the event of a wait covers an operation and nothing later, it
  /// counts as recorded right after that operation's launch.
  void add_waits() {
    std::map<Index, Index> records;  // of operations, the calls that recorded events after them
    for (auto const& [wait, call] : waits_) {
      auto const before = last_up_to(wait.position);
      auto const stream = streams_.find(wait.stream);
      if (before == kNone || calls_of_[before] == kNone || stream == streams_.end()) {
        continue;  // for work from before the recording, which is complete
      }
      auto [record, is_new] = records.emplace(before, kNone);
      if (is_new) {
        auto const launch = recording_.calls[calls_of_[before]];
        record->second = add_call({launch.time.end, launch.time.end},
                                  "record of an event",
                                  launch.thread,
                                  CallKind::record_event);
      }
      recording_.syncs.push_back({.time = recording_.calls[call].time,
                                  .kind = SyncKind::wait,
                                  .call = call,
                                  .stream = stream->second,
                                  .record_call = record->second,
                                  .record_stream = streams_.at(wait.position.stream)});
    }
  }

  void add_notes() {
    recording_.notes.push_back(fmt::format(
        "Recorded in the program, {}. Each operation took two timed events, and the host "
        "issued one at a time, so that it was slower than usual.",
        count_text(watched_.steps.size(), "step", "steps")));
    if (replays_ != 0) {
      recording_.notes.push_back(
          fmt::format("{} of {} operations are replays of captured steps, whose contents are not "
                      "recorded: what runs side by side inside one is unknown. Report on the step "
                      "as it is issued eagerly.",
                      replays_,
                      watched_.trace.operations().size()));
    }
    if (!watched_.why_no_cupti.empty()) {
      recording_.notes.push_back(fmt::format(
          "The times are those of msstream's operations, by events, as CUPTI could not be used: "
          "{}. Work of other libraries, kernels within an operation and hardware queues are "
          "missing.",
          watched_.why_no_cupti));
    }
  }

  WatchedSteps const& watched_;
  Recording recording_;
  std::map<order::StreamIndex, std::map<std::uint64_t, Index>> operations_;
  std::map<order::StreamIndex, Index> streams_;  ///< places in the recording
  std::map<std::thread::id, Index> threads_;
  std::vector<Index> calls_of_;  ///< of each operation, its launch
  std::vector<std::pair<HostCall, Index>> waits_;
  std::size_t replays_ = 0;
};

}  // namespace

void add_steps(WatchedSteps const& watched,
               Index thread,
               Recording& recording,
               std::function<Ns(double)> const& time_of) {
  for (std::size_t i = 0; i < watched.steps.size(); ++i) {
    auto const end = i + 1 < watched.steps.size() ? watched.steps[i + 1] : watched.end_ns;
    Range range;
    range.time = {time_of(watched.steps[i]), time_of(end)};
    range.name = recording.names.id_of(fmt::format("step {}", i + 1));
    range.domain = recording.names.id_of("msstream");
    range.thread = thread;
    range.kind = RangeKind::annotation;
    recording.ranges.push_back(range);
  }
}

Recording recording_of(WatchedSteps const& watched) {
  return LiveBuilder(watched).build();
}

}  // namespace msstream::overlap
