// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/report_json.hpp"

#include "base/json_writer.hpp"
#include "overlap/find/places.hpp"
#include "overlap/recording/python_line.hpp"
#include "overlap/show/figures.hpp"
#include "overlap/show/work.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

using detail::JsonWriter;
using Layout = JsonWriter::Layout;

constexpr std::size_t kMostPathNames = 20;

double share_of(Ns part, Interval const& window) {
  return window.length() == 0 ? 0
                              : static_cast<double>(part) / static_cast<double>(window.length());
}

/// Writes a number, or null if it is unknown.
template <class Number>
void member_if_known(JsonWriter& json, std::string_view name, Number number) {
  if (number == kUnknown) {
    json.key(name);
    json.value(std::numeric_limits<double>::quiet_NaN());  // null
  } else {
    json.member(name, number);
  }
}

void null_member(JsonWriter& json, std::string_view name) {
  json.key(name);
  json.value(std::numeric_limits<double>::quiet_NaN());
}

void interval_members(JsonWriter& json, Interval const& time) {
  json.member("begin_ns", time.begin);
  json.member("end_ns", time.end);
}

class ReportWriter {
 public:
  ReportWriter(JsonWriter& json, Explained const& explained)
      : json_(json), recording_(explained.recording), report_(explained.report) {}

  void write() {
    json_.begin_object(Layout::lines);
    json_.member("origin", recording_.origin);
    json_.member("source", recording_.source);
    json_.member("program", recording_.program);
    member_if_known(json_, "rank", recording_.rank);
    member_if_known(json_, "ranks", recording_.ranks);
    json_.member("clock_step_ns", recording_.clock_step);
    json_.key("window");
    json_.begin_object();
    interval_members(json_, report_.window);
    json_.member("length_ns", report_.window.length());
    json_.end_object();
    json_.member("verdict", report_.verdict);
    write("together", report_.together);
    if (auto const& replay = report_.replay) {
      json_.key("replay");
      json_.begin_object();
      json_.member("recorded_ns", replay->recorded);
      json_.member("replayed_ns", replay->replayed);
      json_.end_object();
    }
    write(report_.recording_cost);
    json_.key("devices");
    json_.begin_array(Layout::lines);
    for (auto const& device : report_.devices) {
      write(device);
    }
    json_.end_array();
    json_.key("work_done");
    write(work_of({recording_, report_}));
    json_.key("findings");
    json_.begin_array(Layout::lines);
    for (auto const& finding : report_.findings) {
      write(finding);
    }
    json_.end_array();
    json_.key("notes");
    json_.begin_array(Layout::lines);
    for (auto const& note : notes_of({recording_, report_})) {
      json_.value(note);
    }
    json_.end_array();
    json_.end_object();
  }

 private:
  void write(DeviceReport const& report) {
    auto const& device = recording_.devices.at(report.device);
    auto const counts = counts_of({recording_, report_}, report.device);
    json_.begin_object(Layout::lines);
    json_.member("device", device.number);
    json_.member("name", device.name);
    member_if_known(json_, "multiprocessors", device.sms);
    json_.member("streams", counts.streams);
    json_.member("activities", counts.activities);
    json_.member("busy_ns", report.busy);
    json_.member("busy_share", share_of(report.busy, report_.window));
    json_.key("at_once_ns");
    json_.array(report.at_once);
    json_.key("times");
    json_.begin_array(Layout::lines);
    for (auto const& time : report.times) {
      json_.begin_object();
      json_.member("class", id_of(time.kind));
      cause_member(time.cause);
      json_.member("time_ns", time.time);
      json_.member("share", share_of(time.time, report_.window));
      json_.end_object();
    }
    json_.end_array();
    json_.key("critical_path");
    write_path(report.critical_path);
    write(figures_of(recording_, report_.window, report.device));
    json_.end_object();
  }

  void write(Figures const& figures) {
    json_.key("work");
    json_.begin_array(Layout::lines);
    for (std::size_t i = 0; i < kWorkKinds; ++i) {
      json_.begin_object();
      json_.member("kind", id_of(static_cast<WorkKind>(i)));
      members(figures.work[i]);
      json_.end_object();
    }
    json_.end_array();
    json_.key("copies");
    json_.begin_array(Layout::lines);
    for (auto const& [direction, time, bytes] : figures.copies) {
      json_.begin_object();
      json_.member("direction", id_of(direction));
      members(time);
      if (bytes == kUnknown) {
        null_member(json_, "bytes");
      } else {
        json_.member("bytes", bytes);
      }
      json_.end_object();
    }
    json_.end_array();
    json_.key("by_stream");
    json_.begin_array(Layout::lines);
    for (auto const& time : figures.streams) {
      auto const& stream = recording_.streams.at(time.stream);
      json_.begin_object();
      json_.member("stream", stream.number);
      member_if_known(json_, "context", stream.context);
      json_.member("name", recording_.names[stream.name]);
      json_.member("activities", time.activities);
      json_.member("busy_ns", time.busy);
      json_.member("idle_ns", report_.window.length() - time.busy);
      json_.member("alone_ns", time.alone);
      json_.end_object();
    }
    json_.end_array();
  }
  void write(WorkDone const& work) {
    json_.begin_object(Layout::lines);
    json_.key("kernels");
    json_.begin_array(Layout::lines);
    for (auto const& [name, launches] : work.kernels) {
      json_.begin_object();
      json_.member("name", name);
      json_.member("launches", launches);
      json_.end_object();
    }
    json_.end_array();
    json_.member("graphs", work.graphs);
    json_.key("copies");
    json_.begin_array(Layout::lines);
    for (auto const& [direction, bytes] : work.copied) {
      json_.begin_object();
      json_.member("direction", direction);
      member_if_known(json_, "bytes", bytes);
      json_.end_object();
    }
    json_.end_array();
    json_.key("ranges");
    json_.begin_array(Layout::lines);
    for (auto const& [name, ranges] : work.ranges) {
      json_.begin_object();
      json_.member("name", name);
      json_.member("count", ranges.count);
      json_.member("time_ns", ranges.time);
      json_.end_object();
    }
    json_.end_array();
    json_.end_object();
  }
  void members(WorkTime const& time) {
    json_.member("activities", time.activities);
    json_.member("busy_ns", time.busy);
    json_.member("exposed_ns", time.exposed);
    json_.member("beside_kernels_ns", time.beside_kernels);
  }

  void cause_member(std::optional<Cause> cause) {
    if (cause) {
      json_.member("cause", text_of(*cause).id);
    } else {
      null_member(json_, "cause");
    }
  }

  /// Writes the sums of a critical path by name, the largest first.
  void write_path(std::vector<Index> const& path) {
    struct Sum {
      Ns time = 0;
      std::size_t count = 0;
    };
    std::map<std::string_view, Sum> sums;
    Ns time = 0;
    for (auto const index : path) {
      auto const& activity = recording_.activities.at(index);
      auto& sum = sums[recording_.names[activity.name]];
      sum.time += activity.time.length();
      time += activity.time.length();
      ++sum.count;
    }
    std::vector<std::pair<std::string_view, Sum>> sorted(sums.begin(), sums.end());
    std::ranges::stable_sort(
        sorted, std::ranges::greater{}, [](auto const& sum) { return sum.second.time; });
    sorted.resize(std::min(sorted.size(), kMostPathNames));
    json_.begin_object(Layout::lines);
    json_.member("activities", path.size());
    json_.member("time_ns", time);
    json_.key("by_name");
    json_.begin_array(Layout::lines);
    for (auto const& [name, sum] : sorted) {
      json_.begin_object();
      json_.member("name", name);
      json_.member("time_ns", sum.time);
      json_.member("activities", sum.count);
      json_.end_object();
    }
    json_.end_array();
    json_.end_object();
  }

  void write(std::string_view key, std::optional<Prediction> const& prediction) {
    if (!prediction) {
      null_member(json_, key);
      return;
    }
    json_.key(key);
    json_.begin_object();
    json_.member("before_ns", prediction->before);
    json_.member("after_ns", prediction->after);
    if (auto const& range = prediction->range) {
      json_.member("least_ns", range->least);
      json_.member("most_ns", range->most);
      json_.member("why", range->why);
    }
    json_.end_object();
  }

  void write(std::optional<RecordingCost> const& cost) {
    if (!cost) {
      null_member(json_, "recording_cost");
      return;
    }
    json_.key("recording_cost");
    json_.begin_object();
    json_.member("launches", cost->launches);
    json_.member("overhead_ns", cost->overhead);
    json_.member("least_per_launch_ns", cost->least_per_launch);
    json_.member("most_per_launch_ns", cost->most_per_launch);
    json_.member("least_window_ns", cost->least_window);
    json_.member("most_window_ns", cost->most_window);
    json_.end_object();
  }

  void write(Finding const& finding) {
    json_.begin_object(Layout::lines);
    json_.member("cause", text_of(finding.cause).id);
    json_.member("title", text_of(finding.cause).title);
    json_.member("device", recording_.devices.at(finding.device).number);
    json_.member("lost_ns", finding.lost);
    json_.member("share", share_of(finding.lost, report_.window));
    json_.member("occurrences", finding.occurrences);
    json_.member("guess", finding.is_guess);
    json_.member("summary", finding.summary);
    json_.member("advice", finding.advice);
    write("prediction", finding.prediction);
    json_.key("overlaps_with");
    json_.array(finding.overlaps_with);
    json_.key("evidence");
    json_.begin_array(Layout::lines);
    for (auto const& evidence : finding.evidence) {
      write(evidence);
    }
    json_.end_array();
    json_.member("intervals_in_all", finding.intervals.size());
    json_.key("intervals");
    write_longest(finding.intervals);
    json_.end_object();
  }

  void write(Evidence const& evidence) {
    json_.begin_object(Layout::lines);
    json_.member("text", evidence.text);
    interval_members(json_, evidence.time);
    activity_member("activity", evidence.activity);
    activity_member("other", evidence.other);
    if (evidence.call == kNone) {
      null_member(json_, "call");
    } else {
      auto const& call = recording_.calls.at(evidence.call);
      json_.key("call");
      json_.begin_object();
      json_.member("name", recording_.names[call.name]);
      json_.member("thread", recording_.threads.at(call.thread).number);
      interval_members(json_, call.time);
      write_place(evidence.call);
      json_.end_object();
    }
    json_.end_object();
  }

  /// Writes where in the program a call was made, as far as it is known.
  void write_place(Index call) {
    auto const range = named_range(recording_, call);
    name_member("range", range == kNone ? 0 : recording_.ranges.at(range).name);
    name_member("range_source", range == kNone ? 0 : recording_.ranges.at(range).source);
    auto const code = recording_.calls.at(call).code;
    bool const is_python = file_of_python_line(recording_.names[code]).has_value();
    name_member("python", is_python ? code : 0);
    name_member("function", is_python ? 0 : code);
  }

  void name_member(std::string_view name, NameId text) {
    if (text == 0) {
      null_member(json_, name);
    } else {
      json_.member(name, recording_.names[text]);
    }
  }

  void activity_member(std::string_view name, Index index) {
    if (index == kNone) {
      return null_member(json_, name);
    }
    auto const& activity = recording_.activities.at(index);
    json_.key(name);
    json_.begin_object();
    json_.member("name", recording_.names[activity.name]);
    json_.member("stream", recording_.streams.at(activity.stream).number);
    interval_members(json_, activity.time);
    json_.end_object();
  }

  void write_longest(std::vector<Interval> intervals) {
    if (intervals.size() > kMostIntervals) {
      std::ranges::stable_sort(intervals, std::ranges::greater{}, &Interval::length);
      intervals.resize(kMostIntervals);
      std::ranges::stable_sort(intervals, {}, &Interval::begin);
    }
    json_.begin_array();
    for (auto const& interval : intervals) {
      json_.begin_array();
      json_.value(interval.begin);
      json_.value(interval.end);
      json_.end_array();
    }
    json_.end_array();
  }

  JsonWriter& json_;
  Recording const& recording_;
  Report const& report_;
};

}  // namespace

std::string json_text(std::span<Explained const> reports) {
  std::string out;
  JsonWriter json(out);
  json.begin_object(Layout::lines);
  json.member("schema", kReportSchema);
  json.member("version", kReportVersion);
  json.key("reports");
  json.begin_array(Layout::lines);
  for (auto const& explained : reports) {
    ReportWriter(json, explained).write();
  }
  json.end_array();
  json.end_object();
  out += '\n';
  return out;
}

}  // namespace msstream::overlap
