// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/event_writer.hpp"

#include "overlap/record/json_text.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace msstream::overlap::record {

namespace {

constexpr std::size_t kRememberedNames = 20'000;
constexpr std::size_t kKeptCallsOfAThread = 4'096;
constexpr std::size_t kRememberedCalls = 100'000;
/// A graph is kept for so many calls of settle(): its call has arrived by then.
constexpr int kMostSettled = 2;

constexpr std::uint64_t pair_of(std::uint32_t high, std::uint32_t low) {
  return (std::uint64_t{high} << 32U) | low;
}

std::string_view memory_name(int kind) {
  constexpr std::string_view kNames[] = {"Unknown",
                                         "Pageable",
                                         "Pinned",
                                         "Device",
                                         "Array",
                                         "Managed",
                                         "Device Static",
                                         "Managed Static"};
  return kind >= 0 && kind < static_cast<int>(std::size(kNames)) ? kNames[kind] : kNames[0];
}

std::string_view direction_name(int kind) {
  constexpr std::string_view kNames[] = {
      "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  return kind >= 0 && kind < static_cast<int>(std::size(kNames)) ? kNames[kind] : kNames[0];
}

std::string_view overhead_name(std::uint32_t kind) {
  constexpr std::string_view kNames[] = {"Unknown",
                                         "Buffer Flush",
                                         "Instrumentation",
                                         "Resource",
                                         "Runtime Triggered Module Loading",
                                         "Lazy Function Loading",
                                         "Command Buffer Full",
                                         "Activity Buffer Request",
                                         "UVM Activity Init"};
  if (kind == 1) {
    return "Driver Compiler";
  }
  std::uint32_t const number = kind >> 16U;
  return number < std::size(kNames) ? kNames[number] : kNames[0];
}

std::string_view flag_name(int flag) {
  constexpr std::string_view kNames[] = {"unknown", "blocking", "non-blocking", "null"};
  return flag >= 0 && flag < static_cast<int>(std::size(kNames)) ? kNames[flag] : kNames[0];
}

bool starts_work(std::string_view call) {
  return call.find("Launch") != std::string_view::npos ||
         call.find("Memcpy") != std::string_view::npos ||
         call.find("Memset") != std::string_view::npos;
}

std::string demangled(std::string_view mangled) {
  std::string const name(mangled);
  // Names of C look like types to the demangler: "t" is "unsigned short".
  if (!mangled.starts_with("_Z")) {
    return name;
  }
  int status = 0;
  char* const plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && plain != nullptr ? plain : name;
  std::free(plain);
  return result;
}

}  // namespace

EventWriter::EventWriter(std::int64_t pid, std::int64_t base) : pid_(pid), base_(base) {}

void EventWriter::open(std::string_view phase_and_category, std::string_view name) {
  ++counts_.events;
  JsonText(text_)
      .raw(",\n{\"ph\": \"X\", \"cat\": \"")
      .raw(phase_and_category)
      .raw("\", \"name\": ")
      .raw(name);
}

void EventWriter::at(std::int64_t pid, std::int64_t tid, Time time) {
  JsonText(text_)
      .raw(", \"pid\": ")
      .number(pid)
      .raw(", \"tid\": ")
      .number(tid)
      .raw(", \"ts\": ")
      .microseconds(time.begin - base_)
      .raw(", \"dur\": ")
      .microseconds(std::max<std::int64_t>(time.end - time.begin, 0))
      .raw(", \"args\": {");
}

void EventWriter::metadata(std::string_view name,
                           std::int64_t pid,
                           std::int64_t tid,
                           std::string_view args) {
  ++counts_.events;
  JsonText(text_)
      .raw(",\n{\"name\": \"")
      .raw(name)
      .raw("\", \"ph\": \"M\", \"ts\": 0, \"pid\": ")
      .number(pid)
      .raw(", \"tid\": ")
      .number(tid)
      .raw(", \"args\": {")
      .raw(args)
      .raw("}}");
}

void EventWriter::flow(
    char phase, std::int64_t pid, std::int64_t tid, std::int64_t time, std::uint32_t id) {
  ++counts_.events;
  JsonText(text_)
      .raw(",\n{\"ph\": \"")
      .raw({&phase, 1})
      .raw("\", \"id\": ")
      .number(id)
      .raw(", \"pid\": ")
      .number(pid)
      .raw(", \"tid\": ")
      .number(tid)
      .raw(", \"ts\": ")
      .microseconds(time - base_)
      .raw(phase == 'f' ? ", \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"}"
                        : ", \"cat\": \"ac2g\", \"name\": \"ac2g\"}");
}

void EventWriter::announce(Place const& place) {
  devices_[place.context] = place.device;
  if (!announced_.emplace(pair_of(place.device, place.stream), true).second) {
    return;
  }
  std::string args;
  JsonText(args).raw("\"name\": \"stream ").number(place.stream).raw("\"");
  metadata("thread_name", place.device, place.stream, args);
  args.clear();
  JsonText(args).raw("\"sort_index\": ").number(place.stream);
  metadata("thread_sort_index", place.device, place.stream, args);
}

bool EventWriter::begin_work(Work const& work) {
  if (work.time.begin == 0 || work.time.end == 0) {
    ++counts_.untimed;
    return false;
  }
  ++counts_.activities;
  announce(work.place);
  return true;
}

void EventWriter::work_fields(Work const& work) {
  JsonText text(text_);
  text.raw("\"device\": ")
      .number(work.place.device)
      .raw(", \"context\": ")
      .number(work.place.context)
      .raw(", \"stream\": ")
      .number(work.place.stream)
      .raw(", \"correlation\": ")
      .number(work.correlation);
}

void EventWriter::close_work(Work const& work) {
  JsonText text(text_);
  if (auto const found = priorities_.find(work.place.stream); found != priorities_.end()) {
    text.raw(", \"priority\": ").number(found->second);
  }
  if (work.graph_node != 0) {
    text.raw(", \"graph id\": ")
        .number(work.graph)
        .raw(", \"graph node id\": ")
        .number(work.graph_node);
  }
  if (work.channel_type != 0) {
    text.raw(", \"channel\": ")
        .number(work.channel)
        .raw(", \"channel_type\": ")
        .number(work.channel_type);
  }
  text.raw("}}");
  flow('f', work.place.device, work.place.stream, work.time.begin, work.correlation);
}

std::string const& EventWriter::name_of(std::string_view mangled) {
  std::string key(mangled);
  if (auto const found = names_.find(key); found != names_.end()) {
    return found->second;
  }
  if (names_.size() >= kRememberedNames) {
    names_.clear();
  }
  std::string quoted;
  JsonText(quoted).quoted(demangled(mangled));
  return names_.emplace(std::move(key), std::move(quoted)).first->second;
}

void EventWriter::add(Kernel const& kernel) {
  Work const& work = kernel.work;
  if (!begin_work(work)) {
    return;
  }
  open("kernel", name_of(kernel.name));
  at(work.place.device, work.place.stream, work.time);
  JsonText text(text_);
  text.raw("\"queued\": 0, ");
  work_fields(work);
  text.raw(", \"registers per thread\": ")
      .number(kernel.registers_per_thread)
      .raw(", \"shared memory\": ")
      .number(kernel.shared_bytes);
  if (auto const found = limits_.find(work.place.device); found != limits_.end()) {
    double blocks = 1;
    double threads = 1;
    for (int axis = 0; axis < 3; ++axis) {
      blocks *= kernel.grid[static_cast<std::size_t>(axis)];
      threads *= kernel.block[static_cast<std::size_t>(axis)];
    }
    double const per_sm = blocks / std::max(found->second.sms, 1);
    text.raw(", \"blocks per SM\": ")
        .decimal(per_sm)
        .raw(", \"warps per SM\": ")
        .decimal(per_sm * threads / std::max(found->second.warp, 1));
  }
  auto const triple = [&text](std::string_view name, auto const& values) {
    text.raw(name).number(values[0]).raw(", ").number(values[1]).raw(", ").number(values[2]).raw(
        "]");
  };
  triple(", \"grid\": [", kernel.grid);
  triple(", \"block\": [", kernel.block);
  if (kernel.cluster[0] != 0) {
    triple(", \"cluster\": [", kernel.cluster);
  }
  close_work(work);
}

void EventWriter::add(Copy const& copy) {
  Work const& work = copy.work;
  if (!begin_work(work)) {
    return;
  }
  std::string name;
  JsonText(name)
      .raw("\"Memcpy ")
      .raw(direction_name(copy.direction))
      .raw(" (")
      .raw(memory_name(copy.source))
      .raw(" -> ")
      .raw(memory_name(copy.target))
      .raw(")\"");
  open("gpu_memcpy", name);
  at(work.place.device, work.place.stream, work.time);
  work_fields(work);
  JsonText text(text_);
  text.raw(", \"bytes\": ").number(copy.bytes);
  if (auto const ns = work.time.end - work.time.begin; ns > 0) {
    text.raw(", \"memory bandwidth (GB/s)\": ")
        .decimal(static_cast<double>(copy.bytes) / static_cast<double>(ns));
  }
  if (copy.peers) {
    text.raw(", \"fromDevice\": ")
        .number((*copy.peers)[0])
        .raw(", \"toDevice\": ")
        .number((*copy.peers)[1]);
  }
  close_work(work);
}

void EventWriter::add(Fill const& fill) {
  Work const& work = fill.work;
  if (!begin_work(work)) {
    return;
  }
  std::string name;
  JsonText(name).raw("\"Memset (").raw(memory_name(fill.target)).raw(")\"");
  open("gpu_memset", name);
  at(work.place.device, work.place.stream, work.time);
  work_fields(work);
  JsonText text(text_);
  text.raw(", \"bytes\": ").number(fill.bytes);
  if (auto const ns = work.time.end - work.time.begin; ns > 0) {
    text.raw(", \"memory bandwidth (GB/s)\": ")
        .decimal(static_cast<double>(fill.bytes) / static_cast<double>(ns));
  }
  close_work(work);
}

void EventWriter::add(WholeGraph const& graph) {
  if (graphs_need_calls_ && graph_calls_.erase(graph.work.correlation) == 0) {
    graphs_.push_back({graph});
    return;
  }
  write(graph);
}

void EventWriter::write_graphs(bool all) {
  std::size_t left = 0;
  for (KeptGraph& kept : graphs_) {
    if (graph_calls_.erase(kept.graph.work.correlation) != 0) {
      write(kept.graph);
    } else if (!all && ++kept.settled <= kMostSettled) {
      graphs_[left++] = kept;
    }
  }
  graphs_.resize(left);
  if (graph_calls_.size() > kRememberedCalls) {
    graph_calls_.clear();  // of launches that failed
  }
}

void EventWriter::write(WholeGraph const& graph) {
  Work const& work = graph.work;
  if (!begin_work(work)) {
    return;
  }
  std::string name;
  JsonText(name).raw("\"CUDA graph ").number(work.graph).raw("\"");
  open("kernel", name);
  at(work.place.device, work.place.stream, work.time);
  JsonText(text_).raw("\"whole graph\": true, \"graph id\": ").number(work.graph).raw(", ");
  work_fields(work);
  close_work(work);
}

void EventWriter::add(ApiCall const& call) {
  auto& kept = kept_calls_[call.thread];
  if (call.of_driver) {
    if (kept.size() >= kKeptCallsOfAThread) {
      write(kept.front().call);
      kept.erase(kept.begin());
    }
    kept.push_back({call, 0});
    return;
  }
  // Calls of a thread arrive in the order of their ends, so a runtime call comes after the driver
  // calls that it makes.
  for (KeptCall const& inner : kept) {
    bool const inside =
        inner.call.time.begin >= call.time.begin && inner.call.time.end <= call.time.end;
    if (!inside) {
      write(inner.call);
    }
  }
  kept.clear();
  write(call);
}

void EventWriter::write(ApiCall const& call) {
  ++counts_.calls;
  std::string name;
  JsonText(name).quoted(call.name);
  open(call.of_driver ? "cuda_driver" : "cuda_runtime", name);
  at(pid_, call.thread, call.time);
  JsonText text(text_);
  text.raw("\"cbid\": ").number(call.number).raw(", \"correlation\": ").number(call.correlation);
  if (call.result != 0) {
    text.raw(", \"result\": ").number(call.result);
  }
  text.raw("}}");
  if (starts_work(call.name)) {
    if (graphs_need_calls_ && call.name.find("GraphLaunch") != std::string_view::npos) {
      graph_calls_.insert(call.correlation);
    }
    flow('s', pid_, call.thread, call.time.begin, call.correlation);
  }
}

std::int64_t EventWriter::device_of(std::uint32_t context) const {
  auto const found = devices_.find(context);
  return found == devices_.end() ? 0 : std::int64_t{found->second};
}

void EventWriter::add(OverheadSpan const& overhead) {
  counts_.overhead_ns += std::max<std::int64_t>(overhead.time.end - overhead.time.begin, 0);
  std::string name;
  JsonText(name).quoted(overhead_name(overhead.kind));
  open("overhead", name);
  at(-1, overhead.thread, overhead.time);
  text_.append("}}");
}

void EventWriter::add(StreamMade const& stream) {
  priorities_[stream.stream] = stream.priority;
  std::string args;
  JsonText(args)
      .raw("\"device\": ")
      .number(device_of(stream.context))
      .raw(", \"context\": ")
      .number(stream.context)
      .raw(", \"stream\": ")
      .number(stream.stream)
      .raw(", \"priority\": ")
      .number(stream.priority)
      .raw(", \"flag\": ")
      .quoted(flag_name(stream.flag));
  metadata("cuda_stream", device_of(stream.context), stream.stream, args);
}

void EventWriter::add(ContextMade const& context) {
  devices_[context.context] = context.device;
  std::string args;
  JsonText(args)
      .raw("\"device\": ")
      .number(context.device)
      .raw(", \"context\": ")
      .number(context.context)
      .raw(", \"null stream\": ")
      .number(context.null_stream);
  metadata("cuda_context", context.device, 0, args);
}

void EventWriter::add(NamedRange const& range) {
  std::string name;
  JsonText(name).quoted(range.name);
  open("user_annotation", name);
  at(pid_, range.thread, range.time);
  JsonText text(text_);
  text.raw("\"nvtx\": true");
  if (!range.domain.empty()) {
    text.raw(", \"domain\": ").quoted(range.domain);
  }
  text.raw(range.of_process ? ", \"process range\": true}}" : "}}");
}

void EventWriter::add(DeviceFacts const& device) {
  limits_[static_cast<std::uint32_t>(device.number)] = {device.sms, device.warp};
  std::string args;
  JsonText(args).raw("\"name\": ").quoted(device.name);
  metadata("process_name", device.number, 0, args);
  args.clear();
  JsonText(args).raw("\"labels\": \"GPU ").number(device.number).raw("\"");
  metadata("process_labels", device.number, 0, args);
  args.clear();
  JsonText(args).raw("\"sort_index\": ").number(5'000'000 + device.number);
  metadata("process_sort_index", device.number, 0, args);
}

void EventWriter::name_thread(std::uint32_t thread, std::string_view name) {
  std::string args;
  JsonText(args).raw("\"name\": ").quoted(name);
  metadata("thread_name", pid_, thread, args);
}

void EventWriter::settle(bool all) {
  write_recordings();
  write_waits(all, true);
  for (auto& [thread, kept] : kept_calls_) {
    std::size_t left = 0;
    for (KeptCall& call : kept) {
      if (all || ++call.settled > 1) {
        write(call.call);
      } else {
        kept[left++] = call;
      }
    }
    kept.resize(left);
  }
  write_graphs(all);
}

std::string EventWriter::take() {
  std::string taken;
  taken.reserve(text_.capacity());
  std::swap(taken, text_);
  return taken;
}

}  // namespace msstream::overlap::record
