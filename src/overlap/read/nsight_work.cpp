// SPDX-License-Identifier: Apache-2.0
// The tables of an export with the work of devices.
#ifdef MSSTREAM_HAS_SQLITE
#include "overlap/read/nsight_reader.hpp"

#include <fmt/core.h>

#include <limits>

namespace msstream::overlap {
namespace {

// Every table of work is read with these columns first.
enum : std::size_t {
  start,
  end,
  device,
  context,
  stream,
  correlation,
  pid,
  node,
  graph,
  own_columns
};

int small_int(std::optional<std::int64_t> value) {
  return value && *value >= std::numeric_limits<int>::min() &&
                 *value <= std::numeric_limits<int>::max()
             ? static_cast<int>(*value)
             : kUnknown;
}

MemoryKind kind_of_memory(std::optional<std::int64_t> number) {
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

CopyDirection direction_of_copy(std::optional<std::int64_t> number) {
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

}  // namespace

void NsightReader::read_work(
    std::string_view table,
    std::vector<std::string_view> const& columns,
    std::function<void(Row const&, RecordingBuilder&, Activity&)> const& take) {
  std::vector<std::string_view> all{"start",
                                    "end",
                                    "deviceId",
                                    "contextId",
                                    "streamId",
                                    "correlationId",
                                    "globalPid",
                                    "graphNodeId",
                                    "graphId"};
  all.insert(all.end(), columns.begin(), columns.end());
  read_rows(table, all, [&](Row const& row) {
    if (!is_in_range(row.number(start), row.number(end))) {
      leave_out(table, row.number(correlation));
      return;
    }
    auto& owner = process(key_of_pid(row.number(pid)));
    auto& builder = owner.builder;
    Activity activity;
    activity.time = {*row.number(start), *row.number(end)};
    int const number = small_int(row.number(device));
    owner.devices[row.number(context, kUnknown)] = number;
    activity.stream = builder.stream(number, row.number(context, kUnknown), row.number(stream, 0));
    activity.graph = positive(row.number(graph));
    activity.is_graph_node = positive(row.number(node)) != kUnknown;
    take(row, builder, activity);
    builder.add(activity, row.number(correlation, 0));
  });
}

void NsightReader::read_kernels() {
  enum : std::size_t {
    demangled = own_columns,
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
    cluster_x,
    cluster_y,
    cluster_z
  };
  auto const three = [](Row const& row, std::size_t x) {
    return std::array{
        small_int(row.number(x)), small_int(row.number(x + 1)), small_int(row.number(x + 2))};
  };
  read_work("CUPTI_ACTIVITY_KIND_KERNEL",
            {"demangledName",
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
             "clusterX",
             "clusterY",
             "clusterZ"},
            [&](Row const& row, RecordingBuilder& builder, Activity& activity) {
              auto name = string(row.number(demangled));
              if (name.empty()) {
                name = string(row.number(short_name));
              }
              activity.name = builder.name(name);
              LaunchShape shape{.grid = three(row, grid_x),
                                .block = three(row, block_x),
                                .registers_per_thread = small_int(row.number(registers))};
              if (row.number(static_shared) && row.number(dynamic_shared)) {
                shape.shared_bytes = std::int64_t{small_int(row.number(static_shared))} +
                                     small_int(row.number(dynamic_shared));
              }
              if (small_int(row.number(cluster_x)) > 0) {
                shape.cluster = three(row, cluster_x);
              }
              activity.shape = builder.shape(shape);
              if (auto const collective = collective_of(name); !collective.empty()) {
                auto& collectives = builder.recording().collectives;
                activity.collective = static_cast<Index>(collectives.size());
                collectives.push_back({.name = builder.name(collective)});
              }
            });
}

void NsightReader::read_copies() {
  enum : std::size_t { bytes = own_columns, kind, source, target };
  read_work("CUPTI_ACTIVITY_KIND_MEMCPY",
            {"bytes", "copyKind", "srcKind", "dstKind"},
            [](Row const& row, RecordingBuilder& builder, Activity& activity) {
              activity.kind = ActivityKind::copy;
              activity.direction = direction_of_copy(row.number(kind));
              activity.source = kind_of_memory(row.number(source));
              activity.target = kind_of_memory(row.number(target));
              activity.bytes = row.number(bytes, kUnknown);
              activity.name = builder.name(
                  name_of_copy({activity.direction, activity.source, activity.target}));
            });
}

void NsightReader::read_fills() {
  enum : std::size_t { bytes = own_columns, kind };
  read_work("CUPTI_ACTIVITY_KIND_MEMSET",
            {"bytes", "memKind"},
            [](Row const& row, RecordingBuilder& builder, Activity& activity) {
              activity.kind = ActivityKind::fill;
              activity.target = kind_of_memory(row.number(kind));
              activity.bytes = row.number(bytes, kUnknown);
              activity.name = builder.name(name_of_fill(activity.target));
            });
}

void NsightReader::read_graphs() {
  read_work("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            {},
            [](Row const& row, RecordingBuilder& builder, Activity& activity) {
              activity.kind = ActivityKind::graph;
              activity.name = builder.name(fmt::format("CUDA graph {}", row.number(graph, 0)));
            });
}

}  // namespace msstream::overlap
#endif
