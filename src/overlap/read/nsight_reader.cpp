// SPDX-License-Identifier: Apache-2.0
// The tables of an export that have times: work, calls, waits, overheads, ranges.
#ifdef MSSTREAM_HAS_SQLITE
#include "overlap/read/nsight_reader.hpp"

#include <fmt/core.h>

#include <limits>
#include <stdexcept>
#include <utility>

namespace msstream::overlap {
namespace {

constexpr std::string_view kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr std::string_view kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr std::string_view kFills = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr std::string_view kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
constexpr std::string_view kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr std::string_view kSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
constexpr std::string_view kEvents = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
constexpr std::string_view kOverheads = "CUPTI_ACTIVITY_KIND_OVERHEAD";

int as_int(std::optional<std::int64_t> value) {
  return value && *value >= std::numeric_limits<int>::min() &&
                 *value <= std::numeric_limits<int>::max()
             ? static_cast<int>(*value)
             : kUnknown;
}

MemoryKind memory_kind(std::optional<std::int64_t> number) {
  switch (number.value_or(-1)) {
    case 0:
      return MemoryKind::pageable;
    case 1:
      return MemoryKind::pinned;
    case 2:  // device
    case 3:  // array
    case 5:  // device static
      return MemoryKind::device;
    case 4:  // managed
    case 6:  // managed static
      return MemoryKind::managed;
    default:
      return MemoryKind::unknown;
  }
}

CopyDirection copy_direction(std::optional<std::int64_t> number) {
  switch (number.value_or(0)) {
    case 1:   // to a device
    case 3:   // to an array
    case 11:  // of managed memory
      return CopyDirection::h2d;
    case 2:
    case 4:
    case 12:
      return CopyDirection::d2h;
    case 5:
    case 6:
    case 7:
    case 8:
      return CopyDirection::d2d;
    case 9:
      return CopyDirection::h2h;
    case 10:
    case 13:
      return CopyDirection::peer;
    default:
      return CopyDirection::unknown;
  }
}

SyncKind sync_kind(std::int64_t number) {
  switch (number) {
    case 1:
      return SyncKind::event;
    case 2:
      return SyncKind::wait;
    case 3:
      return SyncKind::stream;
    default:
      return SyncKind::device;
  }
}

OverheadKind overhead_kind(std::int64_t number) {
  switch (number) {
    case 2:
      return OverheadKind::compile;
    case 3:
    case 4:
    case 5:
      return OverheadKind::recording;
    case 6:
    case 7:
      return OverheadKind::module_load;
    case 8:
      return OverheadKind::queue_is_full;
    default:
      return OverheadKind::other;
  }
}

bool names_a_stream(std::optional<std::int64_t> number) {
  constexpr std::int64_t none = 4294967295;
  return number && *number >= 0 && *number != none;
}

std::int64_t positive(std::optional<std::int64_t> number) {
  return number && *number > 0 ? *number : kUnknown;
}

}  // namespace

NsightReader::NsightReader(std::filesystem::path const& file,
                           std::function<void(std::int64_t, std::int64_t)> progress)
    : name_(file.string()), database_(file), progress_(std::move(progress)) {
  check_kind();
  for (auto const table : {kKernels,
                           kCopies,
                           kFills,
                           kGraphs,
                           kCalls,
                           kSyncs,
                           kEvents,
                           kOverheads,
                           std::string_view("NVTX_EVENTS"),
                           std::string_view("StringIds")}) {
    all_rows_ += progress_ ? database_.most_rows(table) : 0;
  }
  for (auto const table : {kKernels, kCopies, kFills}) {
    has_processes_ =
        has_processes_ && (!database_.has(table) || database_.has(table, "globalPid") ||
                           database_.most_rows(table) == 0);
  }
}

std::vector<Recording> NsightReader::read() {
  read_strings();
  read_kernels();
  read_copies();
  read_fills();
  read_graphs();
  std::uint64_t activities = 0;
  for (auto const& [key, process] : processes_) {
    activities += process.builder.activities();
  }
  if (activities == 0) {
    throw std::runtime_error(fmt::format(
        "{}: no work of a device in it: record with nsys profile --trace=cuda,nvtx", name_));
  }
  read_calls();
  read_event_records();
  read_syncs();
  read_overheads();
  read_ranges();
  describe_streams();
  describe_devices();
  describe_processes();
  std::vector<Recording> recordings;
  for (auto& [key, process] : processes_) {
    if (process.builder.activities() != 0) {
      recordings.push_back(process.builder.finish(start_unix_ns()));
    }
  }
  return recordings;
}

void NsightReader::read_rows(std::string_view table,
                             std::initializer_list<std::string_view> columns,
                             std::function<void(Row const&)> const& take) {
  constexpr std::int64_t rows_between = 4096;
  database_.read(table, columns, [&](Row const& row) {
    if (++rows_ % rows_between == 0 && progress_) {
      progress_(rows_, all_rows_);
    }
    take(row);
  });
}

bool NsightReader::is_in_range(std::optional<std::int64_t> begin, std::optional<std::int64_t> end) {
  constexpr auto most = RecordingBuilder::kLatestTime;
  return begin && end && *begin > -most && *begin<most&& * end> - most && *end < most;
}

NsightReader::ProcessKey NsightReader::key_of_pid(std::optional<std::int64_t> global_pid) const {
  return has_processes_ ? static_cast<ProcessKey>(global_pid.value_or(0)) >> 24U : 0;
}

NsightReader::ProcessKey NsightReader::key_of_thread(std::int64_t global_tid) const {
  return has_processes_ ? static_cast<ProcessKey>(global_tid) >> 24U : 0;
}

Index NsightReader::thread_of(Process& process, std::int64_t global_tid) const {
  constexpr std::int64_t mask = 0xFFFFFF;
  return process.builder.thread((global_tid >> 24U) & mask, global_tid & mask);
}

std::string_view NsightReader::string(std::optional<std::int64_t> id) const {
  if (!id) {
    return {};
  }
  auto const found = strings_.find(*id);
  return found == strings_.end() ? std::string_view() : std::string_view(found->second);
}

void NsightReader::read_strings() {
  read_rows("StringIds", {"id", "value"}, [this](Row const& row) {
    strings_[row.number(0, -1)] = row.text(1);
  });
}

void NsightReader::read_kernels() {
  enum : std::size_t {
    start,
    end,
    device,
    context,
    stream,
    correlation,
    pid,
    demangled,
    short_name,
    registers,
    grid_x,
    grid_y,
    grid_z,
    block_x,
    block_y,
    block_z,
    static_shared,
    dynamic_shared,
    node,
    graph,
    cluster_x,
    cluster_y,
    cluster_z
  };
  auto const take = [this](Row const& row) {
    if (!is_in_range(row.number(start), row.number(end))) {
      ++without_time_;
      return;
    }
    auto& builder = process(key_of_pid(row.number(pid))).builder;
    Activity activity;
    activity.time = {*row.number(start), *row.number(end)};
    auto const name = string(row.number(demangled));
    activity.name = builder.name(name.empty() ? string(row.number(short_name)) : name);
    activity.stream = builder.stream(
        as_int(row.number(device)), row.number(context, kUnknown), row.number(stream, 0));
    LaunchShape shape{
        .grid = {as_int(row.number(grid_x)),
                 as_int(row.number(grid_y)),
                 as_int(row.number(grid_z))},
        .block = {as_int(row.number(block_x)),
                  as_int(row.number(block_y)),
                  as_int(row.number(block_z))},
        .registers_per_thread = as_int(row.number(registers)),
    };
    if (row.number(static_shared) && row.number(dynamic_shared)) {
      shape.shared_bytes =
          std::int64_t{as_int(row.number(static_shared))} + as_int(row.number(dynamic_shared));
    }
    if (as_int(row.number(cluster_x)) > 0) {
      shape.cluster = {as_int(row.number(cluster_x)),
                       as_int(row.number(cluster_y)),
                       as_int(row.number(cluster_z))};
    }
    activity.shape = builder.shape(shape);
    activity.graph = positive(row.number(graph));
    activity.graph_node = positive(row.number(node));
    auto collective = collective_of(string(row.number(short_name)));
    if (collective.empty()) {
      collective = collective_of(name);
    }
    if (!collective.empty()) {
      auto& collectives = builder.recording().collectives;
      activity.collective = static_cast<Index>(collectives.size());
      collectives.push_back({.name = builder.name(collective)});
    }
    builder.add(activity, row.number(correlation, 0));
  };
  read_rows(kKernels,
            {"start",
             "end",
             "deviceId",
             "contextId",
             "streamId",
             "correlationId",
             "globalPid",
             "demangledName",
             "shortName",
             "registersPerThread",
             "gridX",
             "gridY",
             "gridZ",
             "blockX",
             "blockY",
             "blockZ",
             "staticSharedMemory",
             "dynamicSharedMemory",
             "graphNodeId",
             "graphId",
             "clusterX",
             "clusterY",
             "clusterZ"},
            take);
}

void NsightReader::read_copies() {
  enum : std::size_t {
    start,
    end,
    device,
    context,
    stream,
    correlation,
    pid,
    bytes,
    kind,
    source,
    target,
    node,
    graph
  };
  auto const take = [this](Row const& row) {
    if (!is_in_range(row.number(start), row.number(end))) {
      ++without_time_;
      return;
    }
    auto& builder = process(key_of_pid(row.number(pid))).builder;
    Activity activity;
    activity.kind = ActivityKind::copy;
    activity.time = {*row.number(start), *row.number(end)};
    activity.stream = builder.stream(
        as_int(row.number(device)), row.number(context, kUnknown), row.number(stream, 0));
    activity.direction = copy_direction(row.number(kind));
    activity.source = memory_kind(row.number(source));
    activity.target = memory_kind(row.number(target));
    activity.bytes = row.number(bytes, kUnknown);
    activity.graph = positive(row.number(graph));
    activity.graph_node = positive(row.number(node));
    activity.name =
        builder.name(name_of_copy({activity.direction, activity.source, activity.target}));
    builder.add(activity, row.number(correlation, 0));
  };
  read_rows(kCopies,
            {"start",
             "end",
             "deviceId",
             "contextId",
             "streamId",
             "correlationId",
             "globalPid",
             "bytes",
             "copyKind",
             "srcKind",
             "dstKind",
             "graphNodeId",
             "graphId"},
            take);
}

void NsightReader::read_fills() {
  enum : std::size_t {
    start,
    end,
    device,
    context,
    stream,
    correlation,
    pid,
    bytes,
    kind,
    node,
    graph
  };
  auto const take = [this](Row const& row) {
    if (!is_in_range(row.number(start), row.number(end))) {
      ++without_time_;
      return;
    }
    auto& builder = process(key_of_pid(row.number(pid))).builder;
    Activity activity;
    activity.kind = ActivityKind::fill;
    activity.time = {*row.number(start), *row.number(end)};
    activity.stream = builder.stream(
        as_int(row.number(device)), row.number(context, kUnknown), row.number(stream, 0));
    activity.target = memory_kind(row.number(kind));
    activity.bytes = row.number(bytes, kUnknown);
    activity.graph = positive(row.number(graph));
    activity.graph_node = positive(row.number(node));
    activity.name = builder.name(name_of_fill(activity.target));
    builder.add(activity, row.number(correlation, 0));
  };
  read_rows(kFills,
            {"start",
             "end",
             "deviceId",
             "contextId",
             "streamId",
             "correlationId",
             "globalPid",
             "bytes",
             "memKind",
             "graphNodeId",
             "graphId"},
            take);
}

void NsightReader::read_graphs() {
  enum : std::size_t { start, end, device, context, stream, correlation, pid, graph };
  auto const take = [this](Row const& row) {
    if (!is_in_range(row.number(start), row.number(end))) {
      ++without_time_;
      return;
    }
    auto& builder = process(key_of_pid(row.number(pid))).builder;
    Activity activity;
    activity.kind = ActivityKind::graph;
    activity.time = {*row.number(start), *row.number(end)};
    activity.stream = builder.stream(
        as_int(row.number(device)), row.number(context, kUnknown), row.number(stream, 0));
    activity.graph = positive(row.number(graph));
    activity.name = builder.name(fmt::format("CUDA graph {}", row.number(graph, 0)));
    builder.add(activity, row.number(correlation, 0));
  };
  read_rows(kGraphs,
            {"start",
             "end",
             "deviceId",
             "contextId",
             "streamId",
             "correlationId",
             "globalPid",
             "graphId"},
            take);
}

void NsightReader::read_calls() {
  enum : std::size_t { start, end, tid, correlation, name };
  read_rows(
      kCalls, {"start", "end", "globalTid", "correlationId", "nameId"}, [this](Row const& row) {
        if (!is_in_range(row.number(start), row.number(end))) {
          ++without_time_;
          return;
        }
        auto const thread = row.number(tid, 0);
        auto& owner = process(key_of_thread(thread));
        owner.builder.add_call({*row.number(start), *row.number(end)},
                               string(row.number(name)),
                               thread_of(owner, thread),
                               row.number(correlation, 0));
      });
}

void NsightReader::read_event_records() {
  enum : std::size_t { device, context, stream, correlation, pid, event, sync };
  auto const take = [this](Row const& row) {
    auto& owner = process(key_of_pid(row.number(pid)));
    RecordedEvent recorded{.record = row.number(correlation, 0),
                           .event = row.number(event, kUnknown)};
    if (names_a_stream(row.number(stream))) {
      recorded.stream = owner.builder.stream(
          as_int(row.number(device)), row.number(context, kUnknown), *row.number(stream));
    }
    owner.builder.add(recorded);
    if (auto const id = positive(row.number(sync)); id != kUnknown) {
      owner.records[id] = recorded;
    }
  };
  read_rows(
      kEvents,
      {"deviceId", "contextId", "streamId", "correlationId", "globalPid", "eventId", "eventSyncId"},
      take);
}

void NsightReader::read_syncs() {
  enum : std::size_t { start, end, device, context, stream, correlation, pid, type, event_sync };
  auto const take = [this](Row const& row) {
    if (!is_in_range(row.number(start), row.number(end))) {
      ++without_time_;
      return;
    }
    auto& owner = process(key_of_pid(row.number(pid)));
    Sync sync;
    sync.time = {*row.number(start), *row.number(end)};
    sync.kind = sync_kind(row.number(type, 0));
    if (names_a_stream(row.number(stream))) {
      sync.stream = owner.builder.stream(
          as_int(row.number(device)), row.number(context, kUnknown), *row.number(stream));
    }
    std::optional<RecordedEvent> recorded;
    if (sync.kind == SyncKind::wait || sync.kind == SyncKind::event) {
      ++owner.waits;
      if (auto const found = owner.records.find(row.number(event_sync, kUnknown));
          found != owner.records.end()) {
        recorded = found->second;
        ++owner.joined_waits;
      }
    }
    owner.builder.add(sync, row.number(correlation, 0), recorded);
  };
  read_rows(kSyncs,
            {"start",
             "end",
             "deviceId",
             "contextId",
             "streamId",
             "correlationId",
             "globalPid",
             "syncType",
             "eventSyncId"},
            take);
}

void NsightReader::read_overheads() {
  enum : std::size_t { start, end, tid, type, name };
  auto const take = [this](Row const& row, bool of_profiler) {
    if (!is_in_range(row.number(start), row.number(end))) {
      ++without_time_;
      return;
    }
    auto const thread = row.number(tid, 0);
    auto& owner = process(key_of_thread(thread));
    owner.builder.add(
        Overhead{{*row.number(start), *row.number(end)},
                 of_profiler ? OverheadKind::recording : overhead_kind(row.number(type, 0)),
                 thread_of(owner, thread),
                 owner.builder.name(string(row.number(name)))});
  };
  read_rows(kOverheads,
            {"start", "end", "globalTid", "overheadType", "nameId"},
            [&](Row const& row) { take(row, false); });
  read_rows("PROFILER_OVERHEAD",
            {"start", "end", "globalTid", "overheadType", "nameId"},
            [&](Row const& row) { take(row, true); });
}

}  // namespace msstream::overlap
#endif
