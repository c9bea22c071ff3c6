// SPDX-License-Identifier: Apache-2.0
#include "overlap/live/live_recording.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

using detail::HostCall;

/// Adds what msstream knows to a trace of its process: which operation made which calls, the names
/// of streams, which operation needs the results of which, and the steps.
class TracedBuilder {
 public:
  TracedBuilder(WatchedSteps const& watched, Traced traced)
      : watched_(watched), traced_(std::move(traced)), recording_(traced_.recording) {}

  [[nodiscard]] Recording build() {
    recording_.origin = "this program";
    recording_.source =
        fmt::format("msstream on the runtime {}, by CUPTI {}", watched_.runtime, traced_.cupti);
    // No other recording is to be compared with this one.
    recording_.start_unix_ns = 0;
    recording_.rank = kUnknown;
    recording_.ranks = kUnknown;
    cut();
    find_operations();
    name_streams();
    add_dependencies();
    add_ranges();
    add_notes();
    recording_.sort();
    return std::move(recording_);
  }

 private:
  [[nodiscard]] Ns time_of(double steady_ns) const {
    return static_cast<Ns>(std::llround(steady_ns - static_cast<double>(traced_.zero_steady_ns)));
  }

  /// Removes what was traced before the steps, such as those that warmed up, and the calls after
  /// them, such as the recording's own wait.
  void cut() {
    auto const begin = time_of(watched_.begin_ns);
    auto const end = time_of(watched_.end_ns);
    std::vector<Index> calls_at(recording_.calls.size(), kNone);
    std::size_t left = 0;
    for (std::size_t i = 0; i < calls_at.size(); ++i) {
      auto const& call = recording_.calls[i];
      if (call.time.begin >= begin && call.time.begin < end) {
        calls_at[i] = static_cast<Index>(left);
        recording_.calls[left++] = call;
      }
    }
    recording_.calls.resize(left);
    auto const renumber = [&](Index& call) { call = call == kNone ? kNone : calls_at[call]; };
    std::erase_if(recording_.activities,
                  [&](Activity const& activity) { return activity.time.begin < begin; });
    for (auto& activity : recording_.activities) {
      renumber(activity.call);
    }
    auto const outside = [&](auto const& happened) {
      return happened.time.begin < begin || happened.time.begin >= end;
    };
    std::erase_if(recording_.syncs, outside);
    std::erase_if(recording_.overheads, outside);
    std::erase_if(recording_.ranges, outside);
    for (auto& sync : recording_.syncs) {
      renumber(sync.call);
      renumber(sync.record_call);
    }
    for (auto& event : recording_.event_records) {
      renumber(event.call);
    }
    std::erase_if(recording_.event_records,
                  [](EventRecord const& event) { return event.call == kNone; });
  }

  struct Launch {
    Interval time;
    Index operation = kNone;
  };

  /// Finds the operation of each activity: the one in whose launch its call was made.
  void find_operations() {
    std::map<std::pair<order::StreamIndex, std::uint64_t>, Index> operations;
    for (std::size_t i = 0; i < watched_.positions.size(); ++i) {
      auto const position = watched_.positions[i];
      operations.emplace(std::pair(position.stream, position.number), static_cast<Index>(i));
    }
    for (auto const& entry : watched_.calls) {
      auto const found = operations.find({entry.call.position.stream, entry.call.position.number});
      if (entry.call.kind == HostCall::launch && found != operations.end()) {
        launches_[entry.system_thread].push_back(
            {{time_of(entry.begin_ns), time_of(entry.end_ns)}, found->second});
      }
    }
    for (auto& [thread, launches] : launches_) {
      std::ranges::sort(launches, {}, [](Launch const& launch) { return launch.time.begin; });
    }
    operation_of_.assign(recording_.activities.size(), kNone);
    for (std::size_t i = 0; i < operation_of_.size(); ++i) {
      auto const call = recording_.activities[i].call;
      operation_of_[i] = call == kNone ? kNone : operation_at(recording_.calls[call]);
    }
  }

  [[nodiscard]] Index operation_at(Call const& call) const {
    auto const of_thread = launches_.find(recording_.threads[call.thread].number);
    if (of_thread == launches_.end()) {
      return kNone;
    }
    // The clocks of CUPTI and of the host agree to less than half a call.
    auto const middle = call.time.begin + call.time.length() / 2;
    auto const after = std::ranges::upper_bound(
        of_thread->second, middle, {}, [](Launch const& launch) { return launch.time.begin; });
    if (after == of_thread->second.begin() || std::prev(after)->time.end < middle) {
      return kNone;
    }
    return std::prev(after)->operation;
  }

  /// Names a stream as msstream does if most of its work is that of operations on one stream.
  void name_streams() {
    std::map<Index, std::map<std::size_t, std::size_t>> counts;
    for (std::size_t i = 0; i < operation_of_.size(); ++i) {
      constexpr auto none = static_cast<std::size_t>(-1);
      auto const operation = operation_of_[i];
      ++counts[recording_.activities[i].stream]
              [operation == kNone ? none : watched_.trace.operations()[operation].stream];
    }
    for (auto const& [index, by_stream] : counts) {
      auto const most =
          std::ranges::max_element(by_stream, {}, [](auto const& count) { return count.second; });
      auto& stream = recording_.streams[index];
      if (most->first < watched_.trace.streams().size()) {
        stream.name = recording_.names.id_of(watched_.trace.streams()[most->first].name);
        if (stream.type == StreamType::unknown) {
          stream.type = StreamType::non_blocking;
        }
      }
    }
    recording_.has_stream_types = std::ranges::all_of(counts, [this](auto const& of_stream) {
      return recording_.streams[of_stream.first].type != StreamType::unknown;
    });
  }

  /// Adds the dependencies between operations if all work is theirs: otherwise, there are some that
  /// nobody declared. The parts of an operation run one after the other.
  void add_dependencies() {
    auto const& operations = watched_.trace.operations();
    std::vector<std::vector<Index>> parts(operations.size());
    for (std::size_t i = 0; i < operation_of_.size(); ++i) {
      unissued_ += operation_of_[i] == kNone ? 1 : 0;
      nodes_ += recording_.activities[i].is_graph_node ? 1 : 0;
      if (operation_of_[i] != kNone) {
        parts[operation_of_[i]].push_back(static_cast<Index>(i));
      }
    }
    if (unissued_ != 0 || nodes_ != 0) {
      return;
    }
    recording_.has_dependencies = true;
    // A later operation waits for the last part of this one or, without parts, for what this one
    // waits for.
    std::vector<std::vector<Index>> ends(operations.size());
    for (std::size_t i = 0; i < operations.size(); ++i) {
      std::vector<Index> before;
      for (auto const earlier : operations[i].after) {
        before.insert(before.end(), ends[earlier].begin(), ends[earlier].end());
      }
      std::ranges::sort(before);
      before.erase(std::unique(before.begin(), before.end()), before.end());
      if (parts[i].empty()) {
        ends[i] = std::move(before);
        continue;
      }
      for (auto const activity : before) {
        recording_.dependencies.push_back({activity, parts[i].front()});
      }
      for (std::size_t part = 1; part < parts[i].size(); ++part) {
        recording_.dependencies.push_back({parts[i][part - 1], parts[i][part]});
      }
      ends[i] = {parts[i].back()};
    }
  }

  [[nodiscard]] Index thread_of(std::int64_t number) {
    auto const known = std::ranges::find(recording_.threads, number, &Thread::number);
    if (known != recording_.threads.end()) {
      return static_cast<Index>(known - recording_.threads.begin());
    }
    auto const process = recording_.threads.empty() ? 0 : recording_.threads.front().process;
    recording_.threads.push_back({.process = process, .number = number, .name = 0});
    return static_cast<Index>(recording_.threads.size() - 1);
  }

  void add_ranges() {
    for (auto const& [number, launches] : launches_) {
      auto const thread = thread_of(number);
      for (auto const& launch : launches) {
        Range range;
        range.time = launch.time;
        range.name = recording_.names.id_of(watched_.trace.operations()[launch.operation].name);
        range.thread = thread;
        range.kind = RangeKind::operation;
        recording_.ranges.push_back(range);
      }
    }
    add_steps(watched_, thread_of(watched_.system_thread), recording_, [this](double ns) {
      return time_of(ns);
    });
  }

  void add_notes() {
    std::vector<std::string> notes;
    notes.push_back(
        fmt::format("Recorded in the program, {}, by CUPTI {}. The host issued one "
                    "operation at a time, so that it was slower than usual.",
                    count_text(watched_.steps.size(), "step", "steps"),
                    traced_.cupti));
    if (unissued_ != 0) {
      notes.push_back(fmt::format(
          "{} of {} activities are no part of msstream's operations. What they need is not known, "
          "so that a wait for too much is a guess.",
          unissued_,
          recording_.activities.size()));
    }
    if (nodes_ != 0) {
      notes.push_back(
          fmt::format("{} of {} activities are nodes of graphs, whose edges are not recorded.",
                      nodes_,
                      recording_.activities.size()));
    }
    recording_.notes.insert(recording_.notes.begin(), notes.begin(), notes.end());
  }

  WatchedSteps const& watched_;
  Traced traced_;
  Recording& recording_;
  std::map<std::int64_t, std::vector<Launch>> launches_;  ///< by the system's number of the thread
  std::vector<Index> operation_of_;                       ///< of activities; kNone without one
  std::size_t unissued_ = 0;
  std::size_t nodes_ = 0;
};

}  // namespace

Recording recording_of(WatchedSteps const& watched, Traced traced) {
  return TracedBuilder(watched, std::move(traced)).build();
}

}  // namespace msstream::overlap
