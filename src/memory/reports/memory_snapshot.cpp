// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <msstream/memory/statistics.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

std::string to_string(MemoryStatistics const& statistics) {
  return fmt::format(
      "{} bytes live (peak {}), {} reserved (peak {}) of at most {} in {} growths; {} allocations, "
      "{} reuses, {} steals, {} waiting reuses",
      statistics.live_bytes,
      statistics.peak_live_bytes,
      statistics.reserved_bytes,
      statistics.peak_reserved_bytes,
      statistics.limit_bytes,
      statistics.growths,
      statistics.allocations,
      statistics.reuses,
      statistics.steals,
      statistics.waiting_reuses);
}

std::string_view name_of(MemorySnapshot::Event::Kind kind) noexcept {
  switch (kind) {
    case MemorySnapshot::Event::Kind::take:
      return "take";
    case MemorySnapshot::Event::Kind::give_back:
      return "give back";
    case MemorySnapshot::Event::Kind::grow:
      return "grow";
    case MemorySnapshot::Event::Kind::release:
      return "release";
    case MemorySnapshot::Event::Kind::move:
      return "move";
    case MemorySnapshot::Event::Kind::refuse:
      return "refuse";
  }
  return "";
}

std::string_view name_of(MemorySnapshot::Range::State state) noexcept {
  switch (state) {
    case MemorySnapshot::Range::State::in_use:
      return "in use";
    case MemorySnapshot::Range::State::cached:
      return "cached";
    case MemorySnapshot::Range::State::free:
      return "free";
  }
  return "";
}

namespace {

using detail::JsonWriter;

void write_counts(JsonWriter& json, detail::AllocationCounts const& of) {
  json.member("allocations", of.allocations);
  json.member("reuses", of.reuses);
  json.member("steals", of.steals);
  json.member("waiting_reuses", of.waiting_reuses);
}

void write(JsonWriter& json, MemoryStatistics const& of) {
  json.begin_object();
  write_counts(json, of);
  json.member("live_bytes", of.live_bytes);
  json.member("peak_live_bytes", of.peak_live_bytes);
  json.member("reserved_bytes", of.reserved_bytes);
  json.member("peak_reserved_bytes", of.peak_reserved_bytes);
  json.member("limit_bytes", of.limit_bytes);
  json.member("growths", of.growths);
  json.end_object();
}

void write(JsonWriter& json, StreamMemory const& of) {
  json.begin_object();
  json.member("stream", of.stream);
  json.member("live_bytes", of.live_bytes);
  write_counts(json, of);
  json.end_object();
}

void write(JsonWriter& json, MemorySnapshot::Range const& range) {
  json.begin_object();
  json.member("address", range.address);
  json.member("bytes", range.bytes);
  json.member("state", name_of(range.state));
  if (range.state == MemorySnapshot::Range::State::in_use) {
    json.member("scope", range.scope);
  }
  if (range.state != MemorySnapshot::Range::State::free) {
    json.member("stream", range.stream);
  }
  json.end_object();
}

void write(JsonWriter& json,
           MemorySnapshot::Event const& event,
           std::vector<std::string> const& streams) {
  json.begin_object();
  json.member("ns", event.nanoseconds);
  json.member("event", name_of(event.kind));
  json.member("address", event.address);
  json.member("bytes", event.bytes);
  bool const is_of_a_stream = event.kind == MemorySnapshot::Event::Kind::take ||
                              event.kind == MemorySnapshot::Event::Kind::give_back;
  if (is_of_a_stream && event.stream < streams.size()) {
    json.member("stream", streams[event.stream]);
  }
  if (event.scope != nullptr) {
    json.member("scope", *event.scope);
  }
  if (event.waits) {
    json.member("waits", true);
  }
  json.end_object();
}

}  // namespace

std::string MemorySnapshot::json() const {
  std::string out;
  JsonWriter json(out);
  auto const write_list = [&](char const* name, auto const& elements, auto const&... context) {
    json.key(name);
    json.begin_array(JsonWriter::Layout::lines);
    for (auto const& element : elements) {
      write(json, element, context...);
    }
    json.end_array();
  };
  json.begin_object(JsonWriter::Layout::lines);
  json.member("version", 1);
  json.key("statistics");
  write(json, statistics);
  write_list("streams", by_stream);
  write_list("ranges", ranges);
  write_list("events", events, streams);
  json.end_object();
  return out + "\n";
}

}  // namespace msstream
