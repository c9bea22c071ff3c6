// SPDX-License-Identifier: Apache-2.0
#include "overlap/cases/trace_builder.hpp"

#include "overlap/cases/simulation.hpp"
#include "overlap/cases/step_ends.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace msstream::overlap::cases {

HostThread& HostThread::busy(Ns time) {
  return add({.what = Do::busy, .cost = time});
}

HostThread& HostThread::launch(StreamNumber stream, Kernel kernel, Ns cost) {
  return add({.what = Do::launch, .cost = cost, .stream = stream, .kernel = std::move(kernel)});
}

HostThread& HostThread::launch_first(StreamNumber stream, Kernel kernel, Ns load, bool drains) {
  return add({.what = Do::launch,
              .cost = 4 * us,
              .stream = stream,
              .kernel = std::move(kernel),
              .load = load,
              .drains = drains});
}

HostThread& HostThread::launch_graph(StreamNumber stream,
                                     std::vector<Node> nodes,
                                     Ns cost,
                                     std::int64_t graph) {
  return add({.what = Do::graph,
              .cost = cost,
              .stream = stream,
              .nodes = std::move(nodes),
              .graph = graph});
}

HostThread& HostThread::copy(StreamNumber stream,
                             CopyDirection direction,
                             std::int64_t bytes,
                             MemoryKind host_memory) {
  return add({.what = Do::copy,
              .cost = 5 * us,
              .stream = stream,
              .bytes = bytes,
              .direction = direction,
              .memory = host_memory});
}

HostThread& HostThread::fill(StreamNumber stream, std::int64_t bytes) {
  return add({.what = Do::fill, .cost = 4 * us, .stream = stream, .bytes = bytes});
}

HostThread& HostThread::record(EventNumber event, StreamNumber stream) {
  return add({.what = Do::record, .cost = 1 * us, .stream = stream, .event = event});
}

HostThread& HostThread::wait(StreamNumber stream, EventNumber event) {
  return add({.what = Do::wait, .cost = 1 * us, .stream = stream, .event = event});
}

HostThread& HostThread::sync_stream(StreamNumber stream) {
  return add({.what = Do::sync_stream, .cost = 2 * us, .stream = stream});
}

HostThread& HostThread::sync_event(EventNumber event) {
  return add({.what = Do::sync_event, .cost = 2 * us, .event = event});
}

HostThread& HostThread::sync_device() {
  return add({.what = Do::sync_device, .cost = 2 * us});
}

HostThread& HostThread::poll_event(EventNumber event, Ns pause) {
  return add({.what = Do::poll_event, .cost = pause, .event = event});
}

HostThread& HostThread::allocate(Ns cost, std::string_view name) {
  return add({.what = Do::allocate, .cost = cost, .name = std::string(name)});
}

HostThread& HostThread::release(Ns cost) {
  return add({.what = Do::release, .cost = cost});
}

HostThread& HostThread::recorder(Ns time) {
  return add({.what = Do::recorder, .cost = time});
}

HostThread& HostThread::begin_range(std::string_view name, RangeKind kind) {
  return add({.what = Do::begin_range, .range = kind, .name = std::string(name)});
}

HostThread& HostThread::end_range() {
  return add({.what = Do::end_range});
}

StreamNumber TraceBuilder::stream(StreamType type, int priority) {
  Stream stream;
  stream.context = 1;
  stream.number = type == StreamType::legacy ? 7 : 13 + 4 * static_cast<int>(streams_.size());
  stream.type = type;
  stream.priority = priority;
  streams_.push_back(stream);
  return static_cast<StreamNumber>(streams_.size() - 1);
}

namespace {

Ns rounded(Ns time, Ns step) {
  return (time + step / 2) / step * step;
}

void round_times(Recording& recording, Ns step) {
  auto const round_all = [step](auto& elements) {
    for (auto& element : elements) {
      element.time = {rounded(element.time.begin, step), rounded(element.time.end, step)};
    }
  };
  round_all(recording.activities);
  round_all(recording.calls);
  round_all(recording.syncs);
  round_all(recording.overheads);
  round_all(recording.ranges);
  recording.clock_step = step;
}

void hide(Recording& recording, Hidden const& hidden) {
  if (hidden.calls) {
    recording.has_calls = false;
    recording.calls.clear();
    recording.event_records.clear();
    for (auto& activity : recording.activities) {
      activity.call = kNone;
    }
  }
  if (hidden.calls || hidden.syncs) {
    recording.has_syncs = false;
    recording.syncs.clear();
    recording.event_records.clear();
  }
  if (hidden.channels) {
    recording.has_channels = false;
    for (auto& activity : recording.activities) {
      activity.channel = kUnknown;
    }
  }
  if (hidden.stream_types) {
    recording.has_stream_types = false;
    for (auto& stream : recording.streams) {
      stream.type = StreamType::unknown;
      stream.priority.reset();
    }
  }
  if (hidden.overheads) {
    recording.has_overheads = false;
    recording.overheads.clear();
  }
  if (hidden.shapes) {
    recording.shapes.clear();
    for (auto& activity : recording.activities) {
      activity.shape = kNone;
    }
    auto& device = recording.devices.front();
    device.sms = device.threads_per_sm = device.blocks_per_sm = device.registers_per_sm = kUnknown;
    device.shared_bytes_per_sm = kUnknown;
  }
  if (hidden.clock_step > 1) {
    round_times(recording, hidden.clock_step);
  }
}

}  // namespace

Recording TraceBuilder::run(Hidden const& hidden) const {
  auto recording = Simulation(StepEnds::applied_to(*this)).run();
  hide(recording, hidden);
  recording.sort();
  return recording;
}

Index find_activity(Recording const& recording, std::string_view name, std::size_t n) {
  for (Index i = 0; i < recording.activities.size(); ++i) {
    if (recording.names[recording.activities[i].name] == name && n-- == 0) {
      return i;
    }
  }
  throw std::out_of_range("no such activity: " + std::string(name));
}

}  // namespace msstream::overlap::cases
