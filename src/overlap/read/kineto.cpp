// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/kineto.hpp"

#include "overlap/read/work_names.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace msstream::overlap {
namespace {

bool fits_int(std::int64_t value) {
  return value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max();
}

int int_or_unknown(TraceEvent const& event, Field field) {
  auto const value = event.get(field, kUnknown);
  return fits_int(value) ? static_cast<int>(value) : kUnknown;
}

/// Returns the time of an event; empty without one, or if it is out of range.
std::optional<Interval> time_of(TraceEvent const& event) {
  constexpr auto most = RecordingBuilder::kLatestTime / 2;
  auto const begin = event[Field::begin];
  auto const length = event.get(Field::length, 0);
  if (!event.has(Field::begin) || begin < -most || begin > most || length < -most ||
      length > most) {
    return std::nullopt;
  }
  return Interval{begin, begin + length};
}

/// Returns the number of a stream, or kUnknown for none, which is written as -1 or 2^32 - 1.
std::int64_t stream_number(std::int64_t number) {
  constexpr std::int64_t none = 4294967295;
  return number < 0 || number == none ? kUnknown : number;
}

std::string_view trimmed(std::string_view text) {
  while (text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  return text;
}

SyncKind sync_kind_of(std::string_view name) {
  if (name.starts_with("Stream Wait")) {
    return SyncKind::wait;
  }
  if (name.starts_with("Stream")) {
    return SyncKind::stream;
  }
  return name.starts_with("Event") ? SyncKind::event : SyncKind::device;
}

StreamType stream_type_of(std::string_view flag) {
  if (flag == "null") {
    return StreamType::legacy;
  }
  if (flag == "blocking") {
    return StreamType::blocking;
  }
  return flag == "non-blocking" ? StreamType::non_blocking : StreamType::unknown;
}

/// Returns the bytes of the larger side of a collective.
std::int64_t collective_bytes(TraceEvent const& event) {
  auto const bytes = bytes_of_dtype(event[Text::dtype]);
  auto const elements =
      std::max(event.get(Field::input_elements, -1), event.get(Field::output_elements, -1));
  constexpr std::int64_t most_elements = std::int64_t{1} << 50U;
  return bytes == 0 || elements < 0 || elements > most_elements ? kUnknown : elements * bytes;
}

/// Returns what tells an event from others.
std::string text_of(TraceEvent const& event) {
  std::string text = event[Text::name];
  if (event.has(Field::correlation)) {
    text += fmt::format(", of correlation {}", event[Field::correlation]);
  }
  if (event.has(Field::begin)) {
    text += fmt::format(", at {:.3f} us", static_cast<double>(event[Field::begin]) / 1e3);
  }
  return text;
}

}  // namespace

void KinetoReader::take(TraceEvent const& event) {
  marks_.take(event);
  if (event.phase == 'M') {
    take_metadata(event);
    return;
  }
  if (event.phase != 'X') {
    pairs_ += event.phase == 'B' ? 1 : 0;
    return;
  }
  auto const time = time_of(event);
  if (!time) {
    without_time_.add([&] { return text_of(event); });
    return;
  }
  if (!event.has(Field::length) && event.category != Category::sync) {
    without_length_.add([&] { return text_of(event); });
    return;
  }
  ++spans_;
  switch (event.category) {
    case Category::kernel:
    case Category::copy:
    case Category::fill:
      take_work(event, *time);
      break;
    case Category::call:
      hip_calls_ += event[Text::name].starts_with("hip") ? 1 : 0;
      builder_.add_call(
          *time, event[Text::name], thread_of(event), event.get(Field::correlation, 0));
      break;
    case Category::sync:
      take_sync(event, *time);
      break;
    case Category::overhead: {
      auto const has_thread = event.get(Field::pid, -1) >= 0;
      builder_.add(Overhead{*time,
                            overhead_kind_of(event[Text::name]),
                            has_thread ? thread_of(event) : kNone,
                            builder_.name(event[Text::name])});
      break;
    }
    case Category::operation:
    case Category::annotation:
    case Category::device_annotation:
      take_range(event, *time);
      break;
    case Category::none:
      lane_spans_.push_back({*time,
                             {event.get(Field::pid, 0), event.get(Field::tid, 0)},
                             builder_.name(event[Text::name])});
      break;
    case Category::python:
      frames_.add(*time,
                  event[Text::name],
                  event.get(Field::pid, kUnknown),
                  event.get(Field::tid, kUnknown),
                  builder_.recording().names);
      break;
    case Category::other:
      break;
  }
}

void KinetoReader::take_metadata(TraceEvent const& event) {
  std::string_view const name = event[Text::name];
  Row const row(event.get(Field::pid, kUnknown), event.get(Field::tid, kUnknown));
  if (name == "thread_name") {
    row_names_[row] = trimmed(event[Text::label]);
  } else if (name == "process_name") {
    process_names_[row.first] = trimmed(event[Text::label]);
  } else if (name == "cuda_stream") {
    auto& facts =
        stream_facts_[{event.get(Field::context, kUnknown), event.get(Field::stream, row.second)}];
    // A context's null stream is known better from the context.
    if (facts.type == StreamType::unknown) {
      facts.type = stream_type_of(event[Text::flag]);
    }
    if (event.has(Field::priority) && fits_int(event[Field::priority])) {
      facts.priority = static_cast<int>(event[Field::priority]);
    }
  } else if (name == "cuda_context" && event.has(Field::null_stream)) {
    stream_facts_[{event.get(Field::context, kUnknown), event[Field::null_stream]}].type =
        StreamType::legacy;
  } else if (name == "cuda_event_record") {
    builder_.add(RecordedEvent{.record = event.get(Field::correlation, 0),
                               .stream = stream_of(event, event.get(Field::stream, kUnknown)),
                               .event = event.get(Field::event, kUnknown)});
  }
}

/// Returns a stream of the event's device and context; kNone if `number` names none.
Index KinetoReader::stream_of(TraceEvent const& event, std::int64_t number) {
  number = stream_number(number);
  auto const device = event.get(Field::device, event.get(Field::pid, 0));
  if (number == kUnknown || !fits_int(device)) {
    return kNone;
  }
  return builder_.stream(static_cast<int>(device), event.get(Field::context, kUnknown), number);
}

Index KinetoReader::thread_of(TraceEvent const& event) {
  return builder_.thread(event.get(Field::pid, kUnknown), event.get(Field::tid, kUnknown));
}

void KinetoReader::take_work(TraceEvent const& event, Interval time) {
  Activity activity;
  activity.time = time;
  activity.name = builder_.name(event[Text::name]);
  activity.stream = stream_of(event, event.get(Field::stream, event.get(Field::tid, kUnknown)));
  if (activity.stream == kNone) {
    without_time_.add([&] { return text_of(event); });
    return;
  }
  activity.channel = int_or_unknown(event, Field::channel);
  builder_.recording().has_channels |= activity.channel != kUnknown;
  // Kineto writes 0 for work that is no node of a graph.
  activity.graph = std::max<std::int64_t>(event.get(Field::graph, 0), 0);
  activity.is_graph_node = event.get(Field::graph_node, 0) > 0;
  activity.graph = activity.graph == 0 ? kUnknown : activity.graph;
  auto const device = builder_.recording().streams[activity.stream].device;
  if (event.category == Category::kernel && event.is_whole_graph) {
    activity.kind = ActivityKind::graph;
  } else if (event.category == Category::kernel) {
    activity.shape =
        builder_.shape({.grid = event.grid,
                        .block = event.block,
                        .registers_per_thread = int_or_unknown(event, Field::registers),
                        .shared_bytes = event.get(Field::shared_bytes, kUnknown),
                        .cluster = event.cluster});
    activity.collective = collective_of_kernel(event);
    double const blocks =
        static_cast<double>(event.grid[0]) * event.grid[1] * static_cast<double>(event.grid[2]);
    // The number has too few digits if the grid is small.
    if (event.blocks_per_sm >= 1 && event.blocks_per_sm < 1e6 && blocks > 0) {
      sms_[device] = static_cast<int>(std::lround(blocks / event.blocks_per_sm));
    }
  } else {
    auto const movement = movement_of(event[Text::name]);
    activity.kind = event.category == Category::copy ? ActivityKind::copy : ActivityKind::fill;
    activity.direction = movement.direction;
    activity.source = movement.source;
    activity.target = movement.target;
    activity.bytes = event.get(Field::bytes, kUnknown);
  }
  if (event.has(Field::priority) && fits_int(event[Field::priority])) {
    builder_.recording().streams[activity.stream].priority =
        static_cast<int>(event[Field::priority]);
  }
  builder_.add(activity, event.get(Field::correlation, 0));
}

Index KinetoReader::collective_of_kernel(TraceEvent const& event) {
  std::string_view name = event[Text::collective];
  if (name.empty()) {
    name = overlap::collective_of(event[Text::name]);
  }
  if (name.empty()) {
    return kNone;
  }
  auto& collectives = builder_.recording().collectives;
  collectives.push_back({.name = builder_.name(name),
                         .group = builder_.name(event[Text::group]),
                         .members = builder_.name(event[Text::group_members]),
                         .ranks = int_or_unknown(event, Field::group_size),
                         .sequence = event.get(Field::sequence, kUnknown),
                         .bytes = collective_bytes(event)});
  return static_cast<Index>(collectives.size() - 1);
}

void KinetoReader::take_sync(TraceEvent const& event, Interval time) {
  ++syncs_;
  Sync sync;
  sync.time = time;
  sync.kind =
      sync_kind_of(event[Text::sync_kind].empty() ? event[Text::name] : event[Text::sync_kind]);
  sync.stream = stream_of(event, event.get(Field::stream, event.get(Field::tid, kUnknown)));
  std::optional<RecordedEvent> recorded;
  if (event.has(Field::wait_on_record) || event.has(Field::wait_on_stream)) {
    recorded = {.record = event.get(Field::wait_on_record, 0),
                .stream = stream_of(event, event.get(Field::wait_on_stream, kUnknown)),
                .event = event.get(Field::wait_on_event, kUnknown)};
  }
  builder_.add(sync, event.get(Field::correlation, 0), recorded);
}

void KinetoReader::take_range(TraceEvent const& event, Interval time) {
  Range range;
  range.time = time;
  range.name = builder_.name(event[Text::name]);
  if (event.category == Category::device_annotation) {
    range.kind = RangeKind::on_device;
    // The stream is found at the end, as its context is not written here.
    device_ranges_.emplace_back(
        range, Row(event.get(Field::pid, kUnknown), event.get(Field::tid, kUnknown)));
    return;
  }
  range.kind = event.category == Category::operation ? RangeKind::operation
               : event.is_nvtx                       ? RangeKind::nvtx
                                                     : RangeKind::annotation;
  range.domain = builder_.name(event[Text::domain]);
  range.thread = thread_of(event);
  builder_.add(range);
}

/// Returns whether all spans are those of a timeline of msstream: of lanes with names, and without
/// categories. Process 1 may have no name.
bool KinetoReader::is_timeline() const {
  auto const is_msstream = [this](std::int64_t process) {
    auto const name = process_names_.find(process);
    return name == process_names_.end() ? process == 1 : name->second.starts_with("msstream");
  };
  return !lane_spans_.empty() && lane_spans_.size() == spans_ &&
         std::ranges::all_of(lane_spans_, [&](LaneSpan const& span) {
           return is_msstream(span.row.first) && row_names_.contains(span.row);
         });
}

void KinetoReader::take_lanes() {
  for (auto const& span : lane_spans_) {
    std::string_view const lane = row_names_.at(span.row);
    Activity activity;
    activity.time = span.time;
    activity.name = span.name;
    activity.stream = builder_.stream(0, kUnknown, span.row.second);
    builder_.recording().streams[activity.stream].name = builder_.name(lane);
    // A lane whose name another one has too has a number behind it, as in "group 0 h2d (2)".
    auto const stream = lane.ends_with(')') ? lane.substr(0, lane.rfind(" (")) : lane;
    if (stream.ends_with(" h2d") || stream.ends_with(" d2h")) {
      activity.kind = ActivityKind::copy;
      activity.direction = stream.ends_with("h2d") ? CopyDirection::h2d : CopyDirection::d2h;
    }
    builder_.add(activity, 0);
  }
  builder_.recording().notes.emplace_back(
      "a timeline has neither calls nor waits nor dependencies: causes cannot be told from it");
}

void KinetoReader::describe_devices(TraceFacts const& facts) {
  auto& recording = builder_.recording();
  for (Index i = 0; i < recording.devices.size(); ++i) {
    auto& device = recording.devices[i];
    auto const known = std::ranges::find(facts.devices, device.number, &Device::number);
    if (known != facts.devices.end()) {
      device = *known;
    } else if (!facts.devices.empty() || hip_calls_ == 0) {
      recording.notes.push_back(
          fmt::format("the trace has no properties of device {}", device.number));
    }
    if (auto const sms = sms_.find(i); device.sms == kUnknown && sms != sms_.end()) {
      device.sms = sms->second;
      recording.notes.push_back(
          fmt::format("the trace does not give the number of multiprocessors of device {}: {} by "
                      "the \"blocks per SM\" of its kernels",
                      device.number,
                      device.sms));
    }
  }
}

void KinetoReader::describe_rows() {
  auto& recording = builder_.recording();
  for (auto& stream : recording.streams) {
    auto const device = recording.devices[stream.device].number;
    if (auto const found = row_names_.find({device, stream.number});
        stream.name == 0 && found != row_names_.end()) {
      stream.name = builder_.name(found->second);
    }
    auto const facts = stream_facts_.find({stream.context, stream.number});
    if (facts != stream_facts_.end()) {
      stream.type = facts->second.type;
      stream.priority = facts->second.priority ? facts->second.priority : stream.priority;
    }
  }
  recording.has_stream_types = !stream_facts_.empty();
  for (auto& thread : recording.threads) {
    if (auto const found = row_names_.find({thread.process, thread.number});
        found != row_names_.end()) {
      thread.name = builder_.name(found->second);
    }
  }
  for (auto& [range, row] : device_ranges_) {
    range.stream = fits_int(row.first) ? builder_.find_stream(static_cast<int>(row.first),
                                                              stream_number(row.second))
                                       : kNone;
    builder_.add(range);
  }
}

void KinetoReader::add_notes() {
  auto& recording = builder_.recording();
  auto& notes = recording.notes;
  if (!recording.has_calls) {
    notes.emplace_back("the trace has no calls of CUDA: record CPU activities too");
  }
  bool const has_waits = std::ranges::any_of(
      recording.calls, [](Call const& call) { return call.kind == CallKind::wait_event; });
  if (!recording.has_syncs && has_waits) {
    notes.emplace_back(
        "the trace does not tell which event a stream waits for: in PyTorch, record with "
        "experimental_config=torch._C._profiler._ExperimentalConfig("
        "enable_cuda_sync_events=True)");
  }
  std::ranges::move(dropped(), std::back_inserter(notes));
}

/// Returns how many events were left out, by the reason.
std::vector<std::string> KinetoReader::dropped() const {
  std::vector<std::string> texts;
  without_time_.note(texts,
                     "event without a usable time or stream was left out",
                     "events without a usable time or stream were left out");
  without_length_.note(texts,
                       "event whose duration is no number was left out",
                       "events whose duration is no number were left out");
  if (pairs_ != 0) {
    texts.push_back(count_text(pairs_,
                               "pair of begin and end events (phase B) was left out",
                               "pairs of begin and end events (phase B) were left out"));
  }
  return texts;
}

/// Returns how many events were left out, for an error.
std::string KinetoReader::dropped_text() const {
  std::string text;
  for (auto const& part : dropped()) {
    text += "; " + part;
  }
  auto const backwards = builder_.backwards_text();
  return backwards.empty() ? text : text + "; " + backwards;
}

Recording KinetoReader::finish(TraceFacts const& facts,
                               std::string const& file,
                               std::optional<Part> const& part) {
  auto& recording = builder_.recording();
  recording.origin = file;
  bool const timeline = is_timeline();
  if (timeline) {
    take_lanes();
  }
  if (builder_.activities() == 0) {
    throw std::runtime_error(fmt::format(
        "{}: no work of a device in it: {} spans, of which none is a kernel, copy or fill{}{}",
        file,
        spans_,
        dropped_text(),
        recording.calls.empty() ? "; record CUDA activities too"
                                : fmt::format(", and {} calls", recording.calls.size())));
  }
  recording.notes.insert(recording.notes.end(), facts.notes.begin(), facts.notes.end());
  if (!facts.schema.empty() && facts.schema != "1") {
    recording.notes.push_back(fmt::format(
        "the trace has version {} of Kineto's schema; this program reads version 1, and may miss "
        "what has other names",
        facts.schema));
  }
  if (!facts.recorder_version.empty() && facts.recorder_version != "1") {
    recording.notes.push_back(fmt::format(
        "the recording has version {} of msstream-overlap's format; this program reads version 1",
        facts.recorder_version));
  }
  recording.has_calls = !recording.calls.empty();
  recording.has_syncs = syncs_ != 0;
  recording.has_overheads = !recording.overheads.empty();
  recording.rank = part ? part->rank : facts.rank;
  recording.ranks = part ? part->ranks : facts.ranks;
  if (part) {
    recording.notes.push_back(part->note);
  }
  recording.source = timeline               ? "a timeline of msstream"
                     : facts.is_of_recorder ? kRecorderSource
                     : hip_calls_ != 0      ? "Kineto (AMD ROCm)"
                                            : "Kineto";
  if (!timeline) {
    builder_.find_clock_step();
    describe_devices(facts);
    add_notes();
  }
  describe_rows();
  recording.program = facts.program;
  if (auto const name = recording.threads.empty()
                            ? process_names_.end()
                            : process_names_.find(recording.threads.front().process);
      recording.program.empty() && name != process_names_.end()) {
    recording.program = name->second;
  }
  // Without a base, times of today are Unix times.
  constexpr Ns year_2001 = 1'000'000'000'000'000'000;
  auto unix_ns = facts.base_ns;
  if (!unix_ns && recording.activities.front().time.begin >= year_2001) {
    unix_ns = 0;
  }
  frames_.name_calls(recording);
  return builder_.finish(unix_ns, part ? std::optional(part->zero) : std::nullopt);
}

}  // namespace msstream::overlap
