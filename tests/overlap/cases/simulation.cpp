// SPDX-License-Identifier: Apache-2.0
#include "overlap/cases/simulation.hpp"

#include <algorithm>
#include <utility>

namespace msstream::overlap::cases {
namespace {

/// The shortest time of any synchronising call, and the time that it takes to notice.
constexpr Ns kWakeUp = 1500;
constexpr Ns kQuery = 600;

void append(std::vector<Index>& to, std::vector<Index> const& from) {
  to.insert(to.end(), from.begin(), from.end());
}

bool is_blocking(StreamType type) {
  return type == StreamType::blocking || type == StreamType::per_thread;
}

}  // namespace

Simulation::Simulation(TraceBuilder const& program)
    : program_(program),
      gpu_(program.gpu_),
      streams_(program.streams_.size()),
      events_(program.events_) {
  of_sm_ = {
      gpu_.threads_per_sm, gpu_.blocks_per_sm, gpu_.registers_per_sm, gpu_.shared_bytes_per_sm};
  free_.assign(static_cast<std::size_t>(gpu_.sms), of_sm_);
  for (auto const& thread : program.threads_) {
    if (!thread.steps_.empty()) {
      threads_.push_back({.program = &thread});
    }
  }
  auto& device = recording_.devices.emplace_back();
  device.name = gpu_.name;
  device.major = 9;
  device.minor = 0;
  device.sms = gpu_.sms;
  device.threads_per_sm = gpu_.threads_per_sm;
  device.blocks_per_sm = gpu_.blocks_per_sm;
  device.registers_per_sm = gpu_.registers_per_sm;
  device.shared_bytes_per_sm = gpu_.shared_bytes_per_sm;
  recording_.streams = program.streams_;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    recording_.threads.push_back({.process = 100, .number = static_cast<std::int64_t>(100 + i)});
  }
  recording_.origin = "a test";
  recording_.source = "a test";
  recording_.has_calls = recording_.has_syncs = recording_.has_channels = true;
  recording_.has_overheads = recording_.has_stream_types = true;
}

Recording Simulation::run() {
  Ns now = 0;
  for (;;) {
    find_ready(now);
    give(now);
    start_blocks(now);
    start_copies(now);
    release_threads(now);
    Ns host = kNever;
    Index who = kNone;
    for (Index i = 0; i < threads_.size(); ++i) {
      auto const& thread = threads_[i];
      if (!thread.until && thread.next <= thread.program->steps_.size() && thread.free_at < host) {
        host = thread.free_at;
        who = i;
      }
    }
    Ns const next = std::min(host, next_device_time(now));
    if (next == kNever) {
      break;
    }
    advance(now, next);
    now = next;
    if (who != kNone && host == now) {
      step(who, now);
    }
  }
  write(recording_);
  return std::move(recording_);
}

// The host.

Index Simulation::add_call(Index thread, char const* name, CallKind kind, Ns begin, Ns end) {
  recording_.calls.push_back(
      {.time = {begin, end}, .name = recording_.names.id_of(name), .thread = thread, .kind = kind});
  return static_cast<Index>(recording_.calls.size() - 1);
}

void Simulation::release_threads(Ns now) {
  for (auto& thread : threads_) {
    if (thread.until && thread.until()) {
      thread.until = nullptr;
      auto const resume = std::exchange(thread.resume, nullptr);
      resume(now);
    }
  }
}

void Simulation::step(Index number, Ns now) {
  auto& thread = threads_[number];
  if (lock_owner_ == number) {
    lock_owner_.reset();
  }
  if (thread.next == thread.program->steps_.size()) {
    ++thread.next;
    return;
  }
  auto const& step = thread.program->steps_[thread.next++];
  thread.free_at = now + step.cost;
  switch (step.what) {
    case Do::busy:
      return;
    case Do::recorder:
      recording_.overheads.push_back({.time = {now, now + step.cost},
                                      .kind = OverheadKind::recording,
                                      .thread = number,
                                      .name = recording_.names.id_of("Buffer Flush")});
      return;
    case Do::begin_range:
      thread.open_ranges.push_back(static_cast<Index>(recording_.ranges.size()));
      recording_.ranges.push_back({.time = {now, now},
                                   .name = recording_.names.id_of(step.name),
                                   .thread = number,
                                   .kind = step.range});
      return;
    case Do::end_range:
      recording_.ranges.at(thread.open_ranges.back()).time.end = now;
      thread.open_ranges.pop_back();
      return;
    case Do::launch:
    case Do::fill:
      issue_launch(number, step, now);
      return;
    case Do::graph: {
      auto const call =
          add_call(number, "cudaGraphLaunch", CallKind::graph_launch, now, now + step.cost);
      auto const before = order_of(step.stream);
      std::vector<Index> nodes;
      for (std::size_t i = 0; i < step.nodes.size(); ++i) {
        std::vector<Index> after = before;
        for (auto const other : step.nodes[i].after) {
          after.push_back(nodes.at(other));
        }
        Item item;
        item.kernel = step.nodes[i].kernel;
        item.stream = step.stream;
        item.channel = -1;
        item.activity.graph = step.graph == kUnknown ? 1'000 + graphs_ : step.graph;
        item.activity.is_graph_node = true;
        nodes.push_back(add_item(
            std::move(item), call, now + step.cost + gpu_.launch_latency, std::move(after)));
      }
      streams_[step.stream] = {.last = nodes, .waits = {}};
      ++graphs_;
      return;
    }
    case Do::copy:
      issue_copy(number, step, now);
      return;
    case Do::record: {
      auto const call =
          add_call(number, "cudaEventRecord", CallKind::record_event, now, now + step.cost);
      events_[step.event] = {order_of(step.stream), call, step.stream};
      recording_.event_records.push_back(
          {.call = call, .stream = step.stream, .event = static_cast<std::int64_t>(step.event)});
      return;
    }
    case Do::wait: {
      auto const& event = events_[step.event];
      auto const call =
          add_call(number, "cudaStreamWaitEvent", CallKind::wait_event, now, now + step.cost);
      append(streams_[step.stream].waits, event.items);
      recording_.syncs.push_back({.time = {now, now + step.cost},
                                  .kind = SyncKind::wait,
                                  .call = call,
                                  .stream = step.stream,
                                  .record_call = event.call,
                                  .record_stream = event.stream});
      return;
    }
    case Do::sync_stream:
      synchronize(number,
                  SyncKind::stream,
                  order_of(step.stream),
                  {.time = {}, .stream = step.stream},
                  now,
                  "cudaStreamSynchronize",
                  CallKind::synchronize,
                  0);
      return;
    case Do::sync_event:
      synchronize(number,
                  SyncKind::event,
                  events_[step.event].items,
                  {.time = {},
                   .record_call = events_[step.event].call,
                   .record_stream = events_[step.event].stream},
                  now,
                  "cudaEventSynchronize",
                  CallKind::synchronize,
                  0);
      return;
    case Do::sync_device:
      synchronize(number,
                  SyncKind::device,
                  all_items(),
                  {},
                  now,
                  "cudaDeviceSynchronize",
                  CallKind::synchronize,
                  0);
      return;
    case Do::poll_event: {
      bool const is_done = are_done(events_[step.event].items);
      add_call(number, "cudaEventQuery", CallKind::query, now, now + kQuery);
      thread.free_at = now + kQuery + (is_done ? 0 : step.cost);
      thread.next -= is_done ? 0 : 1;
      return;
    }
    case Do::allocate:
      add_call(number, step.name.c_str(), CallKind::allocate, now, now + step.cost);
      return;
    case Do::release:
      synchronize(
          number, SyncKind::device, all_items(), {}, now, "cudaFree", CallKind::release, step.cost);
      return;
  }
}

/// Blocks a thread until items are complete. Only synchronising calls are recorded as such.
void Simulation::synchronize(Index number,
                             SyncKind kind,
                             std::vector<Index> items,
                             Sync sync,
                             Ns now,
                             char const* name,
                             CallKind call_kind,
                             Ns cost_after) {
  auto const call = add_call(number, name, call_kind, now, now);
  sync.kind = kind;
  sync.call = call;
  threads_[number].until = [this, items = std::move(items)] { return are_done(items); };
  threads_[number].resume = [this, number, call, sync, call_kind, cost_after](Ns at) mutable {
    auto& time = recording_.calls[call].time;
    time.end = at + kWakeUp + cost_after;
    threads_[number].free_at = time.end;
    if (call_kind == CallKind::synchronize) {
      sync.time = time;
      recording_.syncs.push_back(sync);
    }
  };
}

void Simulation::issue_launch(Index number, Step const& step, Ns now) {
  auto& thread = threads_[number];
  if (lock_owner_) {
    thread.until = [this] { return !lock_owner_; };
    thread.resume = [this, number, &step, now](Ns at) {
      launch_item(number, step, now, at + step.cost);
    };
    return;
  }
  if (step.load > 0) {
    lock_owner_ = number;
    auto const items = step.drains ? all_items() : std::vector<Index>{};
    thread.until = [this, items] { return are_done(items); };
    thread.resume = [this, number, &step, now](Ns at) {
      recording_.overheads.push_back({.time = {now, at + step.load},
                                      .kind = OverheadKind::module_load,
                                      .thread = number,
                                      .name = recording_.names.id_of("Lazy Function Loading")});
      launch_item(number, step, now, at + step.load + step.cost);
    };
    return;
  }
  if (waiting_launches() >= static_cast<std::size_t>(gpu_.queue_depth)) {
    thread.until = [this] {
      return waiting_launches() < static_cast<std::size_t>(gpu_.queue_depth);
    };
    thread.resume = [this, number, &step, now](Ns at) {
      recording_.overheads.push_back({.time = {now, at},
                                      .kind = OverheadKind::queue_is_full,
                                      .thread = number,
                                      .name = recording_.names.id_of("Command Buffer Full")});
      launch_item(number, step, now, at + step.cost);
    };
    return;
  }
  launch_item(number, step, now, now + step.cost);
}

void Simulation::launch_item(Index number, Step const& step, Ns begin, Ns end) {
  bool const fills = step.what == Do::fill;
  auto const call = add_call(number,
                             fills ? "cudaMemsetAsync" : "cudaLaunchKernel",
                             fills ? CallKind::fill : CallKind::launch,
                             begin,
                             end);
  threads_[number].free_at = end;
  Item item;
  item.stream = step.stream;
  item.kernel = step.kernel;
  if (fills) {
    item.kind = ActivityKind::fill;
    item.kernel = {.name = "Memset (Device)", .duration = 1500 + step.bytes / 2000, .blocks = 8};
    item.activity.target = MemoryKind::device;
    item.activity.bytes = step.bytes;
  }
  put_in_stream(std::move(item), call, end + gpu_.launch_latency);
}

void Simulation::issue_copy(Index number, Step const& step, Ns now) {
  bool const h2d = step.direction == CopyDirection::h2d;
  bool const d2d = step.direction == CopyDirection::d2d;
  bool const pageable = step.memory == MemoryKind::pageable && !d2d;
  Item item;
  item.stream = step.stream;
  item.kind = ActivityKind::copy;
  auto& activity = item.activity;
  activity.direction = step.direction;
  activity.bytes = step.bytes;
  activity.source = h2d ? step.memory : MemoryKind::device;
  activity.target = h2d || d2d ? MemoryKind::device : step.memory;
  double const rate = d2d ? gpu_.device_bytes_per_ns
                          : (pageable ? gpu_.pageable_bytes_per_ns : gpu_.pinned_bytes_per_ns);
  item.copy_time = 1200 + static_cast<Ns>(static_cast<double>(step.bytes) / rate);
  char const* const host = pageable ? "Pageable" : "Pinned";
  item.kernel.name = d2d   ? "Memcpy DtoD (Device -> Device)"
                     : h2d ? std::string("Memcpy HtoD (") + host + " -> Device)"
                           : std::string("Memcpy DtoH (Device -> ") + host + ")";
  auto const call = add_call(number, "cudaMemcpyAsync", CallKind::copy, now, now + step.cost);
  auto const place = static_cast<Index>(items_.size());
  put_in_stream(std::move(item), call, now + (pageable ? 3 * us : step.cost + gpu_.launch_latency));
  if (pageable) {
    threads_[number].until = [this, place] { return items_[place].done; };
    threads_[number].resume = [this, number, call](Ns at) {
      recording_.calls[call].time.end = threads_[number].free_at = at + 2 * us;
    };
  }
}

std::vector<Index> Simulation::order_of(Index stream) const {
  std::vector<Index> items = streams_[stream].last;
  append(items, streams_[stream].waits);
  auto const type = program_.streams_[stream].type;
  for (Index other = 0; other < streams_.size(); ++other) {
    auto const other_type = program_.streams_[other].type;
    if (type == StreamType::legacy && is_blocking(other_type)) {
      append(items, streams_[other].last);
      append(items, streams_[other].waits);
    } else if (is_blocking(type) && other_type == StreamType::legacy) {
      append(items, streams_[other].last);
    }
  }
  return items;
}

Index Simulation::add_item(Item item, Index call, Ns arrival, std::vector<Index> after) {
  item.activity.kind = item.kind;
  item.activity.stream = item.stream;
  item.activity.call = call;
  item.priority = program_.streams_[item.stream].priority.value_or(0);
  item.arrival = arrival;
  item.after = std::move(after);
  if (item.kind != ActivityKind::copy) {
    auto const most = gpu_.sms * blocks_beside(of_sm_, item.kernel);
    auto const waves = (item.kernel.blocks + most - 1) / most;
    item.blocks_left = item.kernel.blocks;
    item.block_time = std::max<Ns>(1, item.kernel.duration / waves);
  }
  items_.push_back(std::move(item));
  return static_cast<Index>(items_.size() - 1);
}

void Simulation::put_in_stream(Item item, Index call, Ns arrival) {
  auto const stream = item.stream;
  item.channel = static_cast<int>(stream) % gpu_.channels;
  item.activity.channel = item.kind == ActivityKind::copy ? kUnknown : item.channel;
  auto const place = add_item(std::move(item), call, arrival, order_of(stream));
  streams_[stream] = {.last = {place}, .waits = {}};
}

std::vector<Index> Simulation::all_items() const {
  std::vector<Index> items;
  for (Index i = 0; i < items_.size(); ++i) {
    if (!items_[i].done) {
      items.push_back(i);
    }
  }
  return items;
}

bool Simulation::are_done(std::vector<Index> const& items) const {
  return std::ranges::all_of(items, [this](Index item) { return items_[item].done; });
}

std::size_t Simulation::waiting_launches() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      items_, [](Item const& item) { return item.kind != ActivityKind::copy && !item.begun; }));
}

// The device.

void Simulation::write(Recording& recording) const {
  for (auto const& item : items_) {
    Activity activity = item.activity;
    auto const& kernel = item.kernel;
    activity.name = recording.names.id_of(kernel.name);
    if (item.kind == ActivityKind::kernel) {
      LaunchShape shape;
      shape.grid = {kernel.blocks, 1, 1};
      shape.block = {kernel.threads, 1, 1};
      shape.registers_per_thread = kernel.registers;
      shape.shared_bytes = kernel.shared_bytes;
      auto const found = std::ranges::find(recording.shapes, shape);
      activity.shape = static_cast<Index>(found - recording.shapes.begin());
      if (found == recording.shapes.end()) {
        recording.shapes.push_back(shape);
      }
    }
    if (kernel.collective) {
      activity.collective = static_cast<Index>(recording.collectives.size());
      recording.collectives.push_back({.name = recording.names.id_of(kernel.collective->name),
                                       .group = recording.names.id_of(kernel.collective->group),
                                       .ranks = 2,
                                       .sequence = kernel.collective->sequence,
                                       .bytes = kernel.collective->bytes});
    }
    recording.activities.push_back(activity);
  }
}

}  // namespace msstream::overlap::cases
