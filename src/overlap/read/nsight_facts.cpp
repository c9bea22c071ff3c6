// SPDX-License-Identifier: Apache-2.0
// The tables of an export that describe processes, devices, streams and ranges.
#ifdef MSSTREAM_HAS_SQLITE
#include "overlap/read/nsight_reader.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <tuple>

namespace msstream::overlap {
namespace {

/// The newest version 3.x of the schema whose tables were compared with what is read here.
constexpr int kNewestSchema = 25;

int int_of(std::optional<std::int64_t> value) {
  return value && *value >= 0 && *value <= std::numeric_limits<int>::max()
             ? static_cast<int>(*value)
             : kUnknown;
}

StreamType stream_type(std::int64_t flag) {
  switch (flag) {
    case 1:
      return StreamType::blocking;
    case 2:
      return StreamType::non_blocking;
    case 3:
      return StreamType::legacy;
    default:
      return StreamType::unknown;
  }
}

std::int64_t pid_of(std::uint64_t key) {
  return static_cast<std::int64_t>(key & 0xFFFFFFU);
}

/// The facts of a GPU, by its number in TARGET_INFO_GPU.
struct Gpu {
  Device device;
  int cuda_number = kUnknown;
};

}  // namespace

void NsightReader::check_kind() {
  std::string product;
  database_.read("META_DATA_EXPORT", {"name", "value"}, [&](Row const& row) {
    if (row.text(0) == "EXPORT_PRODUCT_NAME") {
      product = row.text(1);
    } else if (row.text(0) == "EXPORT_PRODUCT_VERSION") {
      version_ = row.text(1);
    } else if (row.text(0) == "EXPORT_SCHEMA_VERSION") {
      schema_ = row.text(1);
    }
  });
  auto const names = database_.tables();
  bool const has_activities = std::ranges::any_of(
      names, [](std::string const& name) { return name.starts_with("CUPTI_ACTIVITY_KIND_"); });
  bool const is_export = product.find("Nsight Systems") != std::string::npos ||
                         (product.empty() && has_activities && database_.has("StringIds"));
  if (is_export) {
    check_columns();
    return;
  }
  constexpr std::size_t shown = 5;
  auto const some = std::vector<std::string>(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(shown, names.size())));
  throw std::runtime_error(
      fmt::format("{}: a SQLite database, but no export of Nsight Systems: {}",
                  name_,
                  !product.empty() ? fmt::format("it is by {}", product)
                  : names.empty()  ? std::string("it has no tables")
                                   : fmt::format("its tables are {}{}",
                                                fmt::join(some, ", "),
                                                names.size() > shown ? " and others" : "")));
}

/// Throws if a table of work lacks a column without which nothing can be told from it.
void NsightReader::check_columns() const {
  for (std::string_view const table : {"CUPTI_ACTIVITY_KIND_KERNEL",
                                       "CUPTI_ACTIVITY_KIND_MEMCPY",
                                       "CUPTI_ACTIVITY_KIND_MEMSET",
                                       "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"}) {
    for (std::string_view const column : {"start", "end", "deviceId", "streamId"}) {
      if (database_.has(table) && !database_.has(table, column)) {
        throw std::runtime_error(
            fmt::format("{}: the table {} has no column {}: when and where work ran is unknown; {}",
                        name_,
                        table,
                        column,
                        schema_text()));
      }
    }
  }
}

/// Returns which schema the export has, for messages about what it lacks.
std::string NsightReader::schema_text() const {
  if (schema_.empty()) {
    return "the export names no version of its schema (EXPORT_SCHEMA_VERSION)";
  }
  return fmt::format("the export has version {} of the schema; this program knows 3.0 to 3.{}",
                     schema_,
                     kNewestSchema);
}

bool NsightReader::knows_schema() const {
  if (schema_ == "3") {
    return true;
  }
  int minor = 0;
  auto const* const end = schema_.data() + schema_.size();
  auto const read = schema_.starts_with("3.")
                        ? std::from_chars(schema_.data() + 2, end, minor)
                        : std::from_chars_result{schema_.data(), std::errc::invalid_argument};
  return read.ec == std::errc() && (read.ptr == end || *read.ptr == '.') && minor <= kNewestSchema;
}

void NsightReader::read_ranges() {
  std::map<std::tuple<ProcessKey, std::int64_t>, std::string> domains;
  enum : std::size_t { start, end, type, text, text_id, tid, domain };
  auto const columns = {std::string_view("start"),
                        std::string_view("end"),
                        std::string_view("eventType"),
                        std::string_view("text"),
                        std::string_view("textId"),
                        std::string_view("globalTid"),
                        std::string_view("domainId")};
  auto const name_of = [this](Row const& row) {
    auto const name = row.text(text);
    return name.empty() ? string(row.number(text_id)) : name;
  };
  constexpr std::int64_t domain_create = 75;
  if (database_.has("NVTX_EVENTS", "domainId")) {
    database_.read("NVTX_EVENTS", columns, [&](Row const& row) {
      if (row.number(type, 0) == domain_create) {
        domains[{key_of_thread(row.number(tid, 0)), row.number(domain, 0)}] = name_of(row);
      }
    });
  }
  std::uint64_t open = 0;
  read_rows("NVTX_EVENTS", columns, [&](Row const& row) {
    constexpr std::array<std::int64_t, 4> ranges{59, 60, 70, 71};
    if (std::ranges::find(ranges, row.number(type, 0)) == ranges.end()) {
      return;
    }
    if (!is_in_range(row.number(start), row.number(end))) {
      ++open;
      return;
    }
    auto const thread = row.number(tid, 0);
    auto& owner = process(key_of_thread(thread));
    Range range;
    range.time = {*row.number(start), *row.number(end)};
    range.name = owner.builder.name(name_of(row));
    range.thread = thread_of(owner, thread);
    range.kind = RangeKind::nvtx;
    if (auto const found = domains.find({key_of_thread(thread), row.number(domain, 0)});
        found != domains.end()) {
      range.domain = owner.builder.name(found->second);
    }
    owner.builder.add(range);
  });
  if (open != 0) {
    for (auto& [key, process] : processes_) {
      process.builder.recording().notes.push_back(
          fmt::format("{} NVTX ranges without an end were left out", open));
    }
  }
}

void NsightReader::describe_streams() {
  struct Facts {
    StreamType type = StreamType::unknown;
    std::int64_t priority = 0;
  };
  using StreamKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  std::map<StreamKey, Facts> facts;  // by process, context and number
  enum : std::size_t { number, pid, context, priority, flag };
  read_rows("TARGET_INFO_CUDA_STREAM",
            {"streamId", "processId", "contextId", "priority", "flag"},
            [&](Row const& row) {
              facts[{row.number(pid, 0), row.number(context, kUnknown), row.number(number, 0)}] = {
                  stream_type(row.number(flag, 0)), row.number(priority, 0)};
            });
  read_rows("TARGET_INFO_CUDA_CONTEXT_INFO",
            {"nullStreamId", "processId", "contextId"},
            [&](Row const& row) {
              if (row.number(0)) {
                facts[{row.number(1, 0), row.number(2, kUnknown), *row.number(0)}].type =
                    StreamType::legacy;
              }
            });
  for (auto& [key, process] : processes_) {
    auto& recording = process.builder.recording();
    for (auto& stream : recording.streams) {
      auto const found = facts.find({pid_of(key), stream.context, stream.number});
      if (found != facts.end()) {
        stream.type = found->second.type;
        // Priorities below 0 are written as numbers of 32 bits without a sign.
        stream.priority = static_cast<std::int32_t>(found->second.priority);
      }
    }
    recording.has_stream_types = !facts.empty();
  }
}

void NsightReader::describe_devices() {
  std::map<std::int64_t, Gpu> gpus;
  enum : std::size_t { id, name, sms, warps, warp, blocks, registers, shared, major, minor, cuda };
  read_rows("TARGET_INFO_GPU",
            {"id",
             "name",
             "smCount",
             "maxWarpsPerSm",
             "threadsPerWarp",
             "maxBlocksPerSm",
             "maxRegistersPerSm",
             "maxShmemPerSm",
             "computeMajor",
             "computeMinor",
             "cuDevice"},
            [&](Row const& row) {
              Gpu gpu;
              gpu.device.name = row.text(name);
              gpu.device.sms = int_of(row.number(sms));
              gpu.device.blocks_per_sm = int_of(row.number(blocks));
              gpu.device.registers_per_sm = int_of(row.number(registers));
              gpu.device.shared_bytes_per_sm = row.number(shared, kUnknown);
              gpu.device.major = int_of(row.number(major));
              gpu.device.minor = int_of(row.number(minor));
              auto const all = row.number(warps, 0) <= 4096 && row.number(warp, 0) <= 4096
                                   ? row.number(warps, 0) * row.number(warp, 0)
                                   : 0;
              gpu.device.threads_per_sm = all > 0 ? static_cast<int>(all) : kUnknown;
              gpu.cuda_number = int_of(row.number(cuda));
              gpus[row.number(id, 0)] = gpu;
            });
  struct Seen {
    std::int64_t gpu = 0;
    int sms = kUnknown;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Seen> seen;  // by process and CUDA's number
  read_rows(
      "TARGET_INFO_CUDA_DEVICE",
      {"gpuId", "cudaId", "pid", "numMultiprocessors"},
      [&](Row const& row) {
        seen[{row.number(2, 0), row.number(1, 0)}] = {row.number(0, 0), int_of(row.number(3))};
      });
  for (auto& [key, process] : processes_) {
    auto& recording = process.builder.recording();
    for (auto& device : recording.devices) {
      auto const mapped = seen.find({pid_of(key), device.number});
      auto gpu = mapped != seen.end() ? gpus.find(mapped->second.gpu) : gpus.end();
      if (mapped == seen.end()) {
        gpu = std::ranges::find_if(
            gpus, [&](auto const& entry) { return entry.second.cuda_number == device.number; });
        gpu = gpu == gpus.end() ? gpus.find(device.number) : gpu;
      }
      int const number = device.number;
      if (gpu != gpus.end()) {
        device = gpu->second.device;
        device.number = number;
      }
      if (mapped != seen.end() && mapped->second.sms > 0) {
        device.sms = mapped->second.sms;
      }
      if (device.sms == kUnknown) {
        recording.notes.push_back(fmt::format(
            "the export does not give the limits of device {} (table TARGET_INFO_GPU)", number));
      }
    }
  }
}

void NsightReader::describe_processes() {
  std::map<ProcessKey, std::string> programs;
  read_rows("PROCESSES", {"globalPid", "name"}, [&](Row const& row) {
    programs[key_of_pid(row.number(0))] = row.text(1);
  });
  std::map<std::int64_t, std::string_view> thread_names;
  read_rows("ThreadNames", {"globalTid", "nameId"}, [&](Row const& row) {
    thread_names[row.number(0, 0) & 0xFFFFFFFFFFFF] = string(row.number(1));
  });
  for (auto& [key, process] : processes_) {
    auto& recording = process.builder.recording();
    recording.origin = name_;
    recording.source = "Nsight Systems";
    if (!version_.empty()) {
      // "2026.2.1.210" is 2026.2.1 to users.
      auto end = version_.find('.');
      for (int i = 0; i < 2 && end != std::string::npos; ++i) {
        end = version_.find('.', end + 1);
      }
      recording.source += " " + version_.substr(0, end);
    }
    if (auto const found = programs.find(key); found != programs.end()) {
      recording.program = found->second;
    }
    for (auto& thread : recording.threads) {
      auto const found = thread_names.find((thread.process << 24U) | thread.number);
      if (found != thread_names.end()) {
        thread.name = process.builder.name(found->second);
      }
    }
    recording.has_calls = !recording.calls.empty();
    recording.has_overheads = database_.has("CUPTI_ACTIVITY_KIND_OVERHEAD");
    recording.has_syncs = process.joined_waits != 0;
    if (process.joined_waits != 0 && joins_by_event_) {
      recording.notes.emplace_back(
          "the export has no column eventSyncId: each wait counts as one for the last recording of "
          "its event in its context");
    }
    if (process.waits != 0 && process.joined_waits == 0) {
      recording.lacks_event_numbers =
          database_.has("CUPTI_ACTIVITY_KIND_CUDA_EVENT") &&
          !database_.has("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "eventSyncId");
      recording.notes.push_back(fmt::format(
          "the export does not tell which event each of {} waits is for: {}",
          process.waits,
          recording.lacks_event_numbers ? "its events have no column eventSyncId, which later "
                                          "versions of Nsight Systems write"
                                        : "record with nsys profile --cuda-event-trace=true"));
    }
    note_missing(recording.notes);
  }
}

/// Notes tables and columns that reports need and the export lacks.
void NsightReader::note_missing(std::vector<std::string>& notes) const {
  struct Wanted {
    std::string_view table;
    std::string_view column;
    std::string_view what;
  };
  constexpr Wanted wanted[] = {
      {"CUPTI_ACTIVITY_KIND_KERNEL", "correlationId", "which call issued which kernel"},
      {"CUPTI_ACTIVITY_KIND_KERNEL", "demangledName", "the names of kernels"},
      {"CUPTI_ACTIVITY_KIND_KERNEL", "globalPid", "the process of work"},
      {"CUPTI_ACTIVITY_KIND_KERNEL", "contextId", "the context of work"},
      {"CUPTI_ACTIVITY_KIND_KERNEL", "registersPerThread", "the registers of kernels"},
      {"CUPTI_ACTIVITY_KIND_KERNEL", "staticSharedMemory", "the shared memory of kernels"},
      {"CUPTI_ACTIVITY_KIND_KERNEL", "gridX", "the grids of kernels"},
      {"CUPTI_ACTIVITY_KIND_MEMCPY", "correlationId", "which call issued which copy"},
      {"CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", "the directions of copies"},
      {"CUPTI_ACTIVITY_KIND_MEMCPY", "bytes", "the bytes of copies"},
      {"CUPTI_ACTIVITY_KIND_MEMCPY",
       "srcKind",
       "whether copies read pageable memory, so that pageable-copy is not found"},
      {"CUPTI_ACTIVITY_KIND_MEMCPY",
       "dstKind",
       "whether copies write pageable memory, so that pageable-copy is not found"},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", "start", "the times of calls"},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", "end", "the times of calls"},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId", "which call issued which work"},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", "nameId", "the names and kinds of calls"},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid", "the threads of calls"},
      {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "syncType", "the kinds of synchronisations"},
      {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "eventSyncId", "which event a stream waits for"},
  };
  std::vector<std::string> missing;
  for (auto const& [table, column, what] : wanted) {
    if (database_.has(table) && !database_.has(table, column)) {
      missing.push_back(fmt::format("{} ({} has no column {})", what, table, column));
    }
  }
  if (!database_.has("CUPTI_ACTIVITY_KIND_RUNTIME")) {
    missing.emplace_back("calls of CUDA (no table CUPTI_ACTIVITY_KIND_RUNTIME)");
  }
  if (!database_.has("TARGET_INFO_CUDA_STREAM")) {
    missing.emplace_back("types and priorities of streams (no table TARGET_INFO_CUDA_STREAM)");
  }
  if (!database_.has("StringIds")) {
    missing.emplace_back("names of kernels and calls (no table StringIds)");
  }
  if (!knows_schema()) {
    notes.push_back(schema_text());
  }
  if (!missing.empty()) {
    notes.push_back(fmt::format("the export lacks {}", fmt::join(missing, "; ")));
  }
  without_time_.note(
      notes, "row without a usable time was left out", "rows without a usable time were left out");
  database_.not_numbers().note(
      notes, "value was left out that is no number", "values were left out that are no numbers");
}

std::optional<std::int64_t> NsightReader::start_unix_ns() const {
  std::optional<std::int64_t> start;
  database_.read("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [&start](Row const& row) {
    start = row.number(0);
  });
  return start;
}

}  // namespace msstream::overlap
#endif
