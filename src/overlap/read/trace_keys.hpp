// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/read/trace_event.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

/// The keys of traces that are understood, and how their values are read.
namespace msstream::overlap::trace_keys {

/// The meaning of a JSON object or list of a trace.
enum class Place : std::uint8_t {
  skipped,
  file,
  events,
  event,
  arguments,
  list,  ///< of three numbers: a grid, a block, a cluster
  devices,
  device,
  distributed,
  recorder,  ///< what msstream's recorder says about itself
};

/// How the value of a key is read.
enum class Read : std::uint8_t {
  nothing,
  number,
  microseconds,
  text,
  phase,
  process,
  category,
  arguments,
  grid,
  block,
  cluster,
  blocks_per_sm,
  is_nvtx,
  is_whole_graph,
  // Fields of the file.
  events,
  schema,
  recorder_version,
  devices,
  distributed,
  base_ns,
  format,
  document,
  recorder,
  program,
  note,
  notes,
  // Fields of distributedInfo.
  rank,
  ranks,
  // Fields of a device.
  device_number,
  device_name,
  device_major,
  device_minor,
  device_sms,
  device_threads,
  device_blocks,
  device_registers,
  device_shared,
};

struct KeyMeaning {
  std::string_view key;
  Read read = Read::nothing;
  Field field = Field::count_;
  Text text = Text::count_;
};

constexpr KeyMeaning number(std::string_view key, Field field) {
  return {.key = key, .read = Read::number, .field = field};
}
constexpr KeyMeaning text(std::string_view key, Text text) {
  return {.key = key, .read = Read::text, .text = text};
}

inline constexpr KeyMeaning kEventKeys[] = {
    {.key = "ph", .read = Read::phase},
    {.key = "cat", .read = Read::category},
    text("name", Text::name),
    {.key = "pid", .read = Read::process, .field = Field::pid},
    number("tid", Field::tid),
    {.key = "ts", .read = Read::microseconds, .field = Field::begin},
    {.key = "dur", .read = Read::microseconds, .field = Field::length},
    {.key = "args", .read = Read::arguments},
};

inline constexpr KeyMeaning kArgumentKeys[] = {
    number("device", Field::device),
    number("context", Field::context),
    number("stream", Field::stream),
    number("correlation", Field::correlation),
    number("registers per thread", Field::registers),
    number("shared memory", Field::shared_bytes),
    {.key = "grid", .read = Read::grid},
    {.key = "block", .read = Read::block},
    {.key = "cluster", .read = Read::cluster},
    {.key = "blocks per SM", .read = Read::blocks_per_sm},
    number("bytes", Field::bytes),
    number("priority", Field::priority),
    number("graph id", Field::graph),
    number("graph node id", Field::graph_node),
    number("channel", Field::channel),
    text("cuda_sync_kind", Text::sync_kind),
    number("wait_on_stream", Field::wait_on_stream),
    number("wait_on_cuda_event_record_corr_id", Field::wait_on_record),
    number("wait_on_cuda_event_id", Field::wait_on_event),
    text("Collective name", Text::collective),
    text("dtype", Text::dtype),
    text("Process Group Name", Text::group),
    text("Process Group Ranks", Text::group_members),
    number("In msg nelems", Field::input_elements),
    number("Out msg nelems", Field::output_elements),
    number("Group size", Field::group_size),
    number("Seq", Field::sequence),
    // A field of merged traces.
    number("rank", Field::rank),
    // Fields of metadata events.
    text("name", Text::label),
    text("labels", Text::label),
    // Fields that msstream's recorder adds.
    number("null stream", Field::null_stream),
    number("event", Field::event),
    text("flag", Text::flag),
    text("domain", Text::domain),
    {.key = "nvtx", .read = Read::is_nvtx},
    {.key = "whole graph", .read = Read::is_whole_graph},
};

inline constexpr KeyMeaning kFileKeys[] = {
    {.key = "traceEvents", .read = Read::events},
    {.key = "schemaVersion", .read = Read::schema},
    {.key = "deviceProperties", .read = Read::devices},
    {.key = "distributedInfo", .read = Read::distributed},
    {.key = "baseTimeNanoseconds", .read = Read::base_ns},
    {.key = "format", .read = Read::format},
    {.key = "schema", .read = Read::document},
    {.key = "msstream_overlap", .read = Read::recorder},
    {.key = "msstream_overlap_end", .read = Read::recorder},
    {.key = "program", .read = Read::program},
    {.key = "notes", .read = Read::notes},
};

inline constexpr KeyMeaning kRecorderKeys[] = {
    {.key = "notes", .read = Read::notes},
    {.key = "version", .read = Read::recorder_version},
};

inline constexpr KeyMeaning kDistributedKeys[] = {
    {.key = "rank", .read = Read::rank},
    {.key = "world_size", .read = Read::ranks},
};

inline constexpr KeyMeaning kDeviceKeys[] = {
    {.key = "id", .read = Read::device_number},
    {.key = "name", .read = Read::device_name},
    {.key = "computeMajor", .read = Read::device_major},
    {.key = "computeMinor", .read = Read::device_minor},
    {.key = "numSms", .read = Read::device_sms},
    {.key = "maxThreadsPerMultiprocessor", .read = Read::device_threads},
    {.key = "maxBlocksPerMultiprocessor", .read = Read::device_blocks},
    {.key = "regsPerMultiprocessor", .read = Read::device_registers},
    {.key = "sharedMemPerMultiprocessor", .read = Read::device_shared},
    // AMD's spelling.
    {.key = "maxSharedMemoryPerMultiProcessor", .read = Read::device_shared},
};

template <std::size_t Count>
KeyMeaning meaning_of(KeyMeaning const (&keys)[Count], std::string_view key) {
  for (auto const& known : keys) {
    if (known.key == key) {
      return known;
    }
  }
  return {};
}

inline Category category_of(std::string_view name) {
  struct Known {
    std::string_view name;
    Category category;
  };
  constexpr Known known[] = {
      {"cpu_op", Category::operation},
      {"python_function", Category::python},
      {"cuda_runtime", Category::call},
      {"kernel", Category::kernel},
      {"gpu_memcpy", Category::copy},
      {"gpu_memset", Category::fill},
      {"cuda_driver", Category::call},
      {"cuda_sync", Category::sync},
      {"user_annotation", Category::annotation},
      {"gpu_user_annotation", Category::device_annotation},
      {"overhead", Category::overhead},
      // Before 2022.
      {"Operator", Category::operation},
      {"Runtime", Category::call},
      {"Kernel", Category::kernel},
      {"Memcpy", Category::copy},
      {"Memset", Category::fill},
  };
  for (auto const& one : known) {
    if (one.name == name) {
      return one.category;
    }
  }
  return Category::other;
}

}  // namespace msstream::overlap::trace_keys
