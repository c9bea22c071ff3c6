// SPDX-License-Identifier: Apache-2.0
// The tables of an export that have times: work, calls, waits, overheads, ranges.
#ifdef MSSTREAM_HAS_SQLITE
#include "overlap/read/nsight_reader.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
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
constexpr std::string_view kChains = "CUDA_CALLCHAINS";
constexpr std::string_view kSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
constexpr std::string_view kEvents = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
constexpr std::string_view kOverheads = "CUPTI_ACTIVITY_KIND_OVERHEAD";

int as_int(std::optional<std::int64_t> value) {
  return value && *value >= std::numeric_limits<int>::min() &&
                 *value <= std::numeric_limits<int>::max()
             ? static_cast<int>(*value)
             : kUnknown;
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
                           kChains,
                           std::string_view("NVTX_EVENTS"),
                           std::string_view("StringIds")}) {
    all_rows_ += progress_ ? database_.most_rows(table) : 0;
  }
  joins_by_event_ = database_.has(kEvents) && (!database_.has(kEvents, "eventSyncId") ||
                                               !database_.has(kSyncs, "eventSyncId"));
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
    std::vector<std::string> notes;
    if (without_time_.any()) {
      note_missing(notes);
    }
    for (auto const& [key, process] : processes_) {
      if (auto const text = process.builder.backwards_text(); !text.empty()) {
        notes.push_back(text);
      }
    }
    throw std::runtime_error(
        fmt::format("{}: no work of a device in it: record with nsys profile --trace=cuda,nvtx{}{}",
                    name_,
                    notes.empty() ? "" : "; ",
                    fmt::join(notes, "; ")));
  }
  read_call_chains();
  read_calls();
  read_event_records();
  read_syncs();
  read_overheads();
  read_ranges();
  describe_streams();
  describe_devices();
  describe_processes();
  // All processes have the clock of the file.
  auto zero = std::numeric_limits<Ns>::max();
  for (auto const& [key, process] : processes_) {
    if (process.builder.activities() != 0) {
      zero = std::min(zero, process.builder.first_time());
    }
  }
  std::vector<Recording> recordings;
  for (auto& [key, process] : processes_) {
    if (process.builder.activities() != 0) {
      recordings.push_back(process.builder.finish(start_unix_ns(), zero));
    }
  }
  return recordings;
}

void NsightReader::read_rows(std::string_view table,
                             std::vector<std::string_view> const& columns,
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

/// Counts a row that has no time.
void NsightReader::leave_out(std::string_view table, std::optional<std::int64_t> correlation) {
  without_time_.add([&] {
    return correlation ? fmt::format("{}, correlationId {}", table, *correlation)
                       : std::string(table);
  });
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

Index NsightReader::stream_of(Process& process,
                              std::optional<std::int64_t> device,
                              std::int64_t context,
                              std::optional<std::int64_t> number) {
  constexpr std::int64_t none = 4294967295;
  if (!number || *number < 0 || *number == none) {
    return kNone;
  }
  auto const found = process.devices.find(context);
  return process.builder.stream(
      found == process.devices.end() ? as_int(device) : found->second, context, *number);
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

void NsightReader::read_call_chains() {
  enum : std::size_t { chain, depth, symbol, module, unresolved };
  read_rows(
      kChains, {"id", "stackDepth", "symbol", "module", "unresolved"}, [this](Row const& row) {
        if (row.number(chain) && row.number(unresolved, 0) == 0) {
          chains_.add(*row.number(chain),
                      row.number(depth, 0),
                      string(row.number(symbol)),
                      string(row.number(module)));
        }
      });
}

void NsightReader::read_calls() {
  enum : std::size_t { start, end, tid, correlation, name, chain };
  read_rows(kCalls,
            {"start", "end", "globalTid", "correlationId", "nameId", "callchainId"},
            [this](Row const& row) {
              if (!is_in_range(row.number(start), row.number(end))) {
                leave_out(kCalls, row.number(correlation));
                return;
              }
              auto const thread = row.number(tid, 0);
              auto& owner = process(key_of_thread(thread));
              owner.builder.add_call({*row.number(start), *row.number(end)},
                                     string(row.number(name)),
                                     thread_of(owner, thread),
                                     row.number(correlation, 0),
                                     chains_.function_of(row.number(chain, kUnknown)));
            });
}

void NsightReader::read_event_records() {
  enum : std::size_t { device, context, stream, correlation, pid, event, sync };
  auto const take = [this](Row const& row) {
    auto& owner = process(key_of_pid(row.number(pid)));
    RecordedEvent recorded{.record = row.number(correlation, 0),
                           .event = row.number(event, kUnknown)};
    recorded.stream =
        stream_of(owner, row.number(device), row.number(context, kUnknown), row.number(stream));
    owner.builder.add(recorded);
    if (auto const id = positive(row.number(sync)); id != kUnknown) {
      owner.records[id] = recorded;
    }
    if (joins_by_event_ && recorded.record > 0 && recorded.event != kUnknown) {
      owner.records_of_event[{recorded.event, row.number(context, kUnknown)}].push_back(recorded);
    }
  };
  read_rows(
      kEvents,
      {"deviceId", "contextId", "streamId", "correlationId", "globalPid", "eventId", "eventSyncId"},
      take);
  for (auto& [key, process] : processes_) {
    for (auto& [event, records] : process.records_of_event) {
      std::ranges::stable_sort(records, {}, &RecordedEvent::record);
    }
  }
}

/// Correlations count the calls in their order.
std::optional<RecordedEvent> NsightReader::last_record(Process const& process,
                                                       std::int64_t event,
                                                       std::int64_t context,
                                                       std::int64_t wait) {
  auto const found = process.records_of_event.find({event, context});
  if (found == process.records_of_event.end()) {
    return std::nullopt;
  }
  auto const& records = found->second;
  auto const after = std::ranges::lower_bound(records, wait, {}, &RecordedEvent::record);
  return after == records.begin() ? std::nullopt : std::optional(*(after - 1));
}

void NsightReader::read_syncs() {
  enum : std::size_t {
    start,
    end,
    device,
    context,
    stream,
    correlation,
    pid,
    type,
    event_sync,
    event
  };
  auto const take = [this](Row const& row) {
    if (!is_in_range(row.number(start), row.number(end))) {
      leave_out(kSyncs, row.number(correlation));
      return;
    }
    auto& owner = process(key_of_pid(row.number(pid)));
    Sync sync;
    sync.time = {*row.number(start), *row.number(end)};
    sync.kind = sync_kind(row.number(type, 0));
    sync.stream =
        stream_of(owner, row.number(device), row.number(context, kUnknown), row.number(stream));
    std::optional<RecordedEvent> recorded;
    if (sync.kind == SyncKind::wait || sync.kind == SyncKind::event) {
      ++owner.waits;
      if (auto const found = owner.records.find(row.number(event_sync, kUnknown));
          found != owner.records.end()) {
        recorded = found->second;
      } else if (joins_by_event_) {
        recorded = last_record(owner,
                               row.number(event, kUnknown),
                               row.number(context, kUnknown),
                               row.number(correlation, 0));
      }
      owner.joined_waits += recorded ? 1 : 0;
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
             "eventSyncId",
             "eventId"},
            take);
}

void NsightReader::read_overheads() {
  enum : std::size_t { start, end, tid, type, name };
  auto const take = [this](Row const& row, bool of_profiler) {
    if (!is_in_range(row.number(start), row.number(end))) {
      leave_out(kOverheads, std::nullopt);
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
