// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/work_names.hpp"

#include <fmt/core.h>

#include <array>
#include <utility>

namespace msstream::overlap {
namespace {

struct DirectionName {
  CopyDirection direction;
  std::string_view name;
  std::string_view long_name;
};

constexpr DirectionName kDirections[] = {
    {CopyDirection::h2d, "HtoD", "HostToDevice"},
    {CopyDirection::d2h, "DtoH", "DeviceToHost"},
    {CopyDirection::d2d, "DtoD", "DeviceToDevice"},
    {CopyDirection::peer, "PtoP", "PeerToPeer"},
    {CopyDirection::h2h, "HtoH", "HostToHost"},
    // Arrays are in the memory of a device.
    {CopyDirection::h2d, "HtoA", "HostToArray"},
    {CopyDirection::d2h, "AtoH", "ArrayToHost"},
    {CopyDirection::d2d, "AtoA", "ArrayToArray"},
    {CopyDirection::d2d, "AtoD", "ArrayToDevice"},
    {CopyDirection::d2d, "DtoA", "DeviceToArray"},
};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

MemoryKind memory_kind_of(std::string_view name) {
  if (name == "Pageable") {
    return MemoryKind::pageable;
  }
  if (name == "Pinned") {
    return MemoryKind::pinned;
  }
  if (name == "Managed" || name == "Managed Static") {
    return MemoryKind::managed;
  }
  if (name == "Device" || name == "Array" || name == "Device Static") {
    return MemoryKind::device;
  }
  return MemoryKind::unknown;
}

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::pageable:
      return "Pageable";
    case MemoryKind::pinned:
      return "Pinned";
    case MemoryKind::device:
      return "Device";
    case MemoryKind::managed:
      return "Managed";
    case MemoryKind::unknown:
      break;
  }
  return "Unknown";
}

Movement movement_of(std::string_view name) {
  Movement movement;
  for (auto const& known : kDirections) {
    if (has(name, known.name) || has(name, known.long_name)) {
      movement.direction = known.direction;
      break;
    }
  }
  auto const open = name.find('(');
  auto const close = name.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return movement;
  }
  auto const kinds = name.substr(open + 1, close - open - 1);
  constexpr std::string_view arrow = " -> ";
  if (auto const at = kinds.find(arrow); at != std::string_view::npos) {
    movement.source = memory_kind_of(kinds.substr(0, at));
    movement.target = memory_kind_of(kinds.substr(at + arrow.size()));
  } else {
    movement.target = memory_kind_of(kinds);
  }
  return movement;
}

std::string name_of_copy(Movement const& movement) {
  std::string_view direction = "Unknown";
  for (auto const& known : kDirections) {
    if (known.direction == movement.direction) {
      direction = known.name;
      break;
    }
  }
  return fmt::format(
      "Memcpy {} ({} -> {})", direction, name_of(movement.source), name_of(movement.target));
}

std::string name_of_fill(MemoryKind target) {
  return fmt::format("Memset ({})", name_of(target));
}

std::string_view collective_of(std::string_view kernel) {
  // "ncclKernel_AllReduce_RING_LL_Sum_float(…)", "ncclDevKernel_…" and, of old versions,
  // "ncclAllReduceRingLLKernel_sum_f32(…)".
  if (!kernel.starts_with("nccl") || !has(kernel, "Kernel")) {
    return {};
  }
  constexpr std::pair<std::string_view, std::string_view> known[] = {
      {"AllReduce", "allreduce"},
      {"AllGather", "allgather"},
      {"ReduceScatter", "reduce_scatter"},
      {"Broadcast", "broadcast"},
      {"AllToAll", "alltoall"},
      {"SendRecv", "sendrecv"},
      {"Reduce", "reduce"},
      {"Generic", "collective"},
  };
  auto const arguments = kernel.find('(');
  auto const name = kernel.substr(0, arguments);
  for (auto const& [part, collective] : known) {
    if (has(name, part)) {
      return collective;
    }
  }
  return "collective";
}

int bytes_of_dtype(std::string_view dtype) {
  constexpr std::pair<std::string_view, int> known[] = {
      {"Float", 4},
      {"Half", 2},
      {"BFloat16", 2},
      {"Double", 8},
      {"Int", 4},
      {"Long", 8},
      {"Byte", 1},
      {"Char", 1},
      {"Bool", 1},
      {"Short", 2},
      {"UInt16", 2},
      {"UInt32", 4},
      {"UInt64", 8},
      {"ComplexFloat", 8},
      {"ComplexDouble", 16},
  };
  for (auto const& [name, bytes] : known) {
    if (dtype == name) {
      return bytes;
    }
  }
  return dtype.starts_with("Float8") ? 1 : 0;
}

OverheadKind overhead_kind_of(std::string_view name) {
  if (has(name, "Module Loading") || has(name, "Function Loading")) {
    return OverheadKind::module_load;
  }
  if (has(name, "Compiler")) {
    return OverheadKind::compile;
  }
  if (has(name, "Command Buffer Full")) {
    return OverheadKind::queue_is_full;
  }
  for (auto const* part : {"Buffer", "Instrumentation", "Resource", "Profiler", "profil"}) {
    if (has(name, part)) {
      return OverheadKind::recording;
    }
  }
  return OverheadKind::other;
}

}  // namespace msstream::overlap
