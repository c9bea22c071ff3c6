// SPDX-License-Identifier: Apache-2.0
#include "base/json_string.hpp"

#include <msstream/base/text.hpp>
#include <msstream/memory/statistics.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

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

std::string members_of(detail::AllocationCounts const& of) {
  return text("\"allocations\": ",
              of.allocations,
              ", \"reuses\": ",
              of.reuses,
              ", \"steals\": ",
              of.steals,
              ", \"waiting_reuses\": ",
              of.waiting_reuses);
}

std::string json_of(MemoryStatistics const& of) {
  return text("{",
              members_of(of),
              ", \"live_bytes\": ",
              of.live_bytes,
              ", \"peak_live_bytes\": ",
              of.peak_live_bytes,
              ", \"reserved_bytes\": ",
              of.reserved_bytes,
              ", \"peak_reserved_bytes\": ",
              of.peak_reserved_bytes,
              ", \"limit_bytes\": ",
              of.limit_bytes,
              ", \"growths\": ",
              of.growths,
              "}");
}

std::string json_of(StreamMemory const& of) {
  return text("{\"stream\": ",
              detail::json_string(of.stream),
              ", \"live_bytes\": ",
              of.live_bytes,
              ", ",
              members_of(of),
              "}");
}

std::string json_of(MemorySnapshot::Range const& range) {
  auto json = text("{\"address\": ",
                   range.address,
                   ", \"bytes\": ",
                   range.bytes,
                   ", \"state\": ",
                   detail::json_string(name_of(range.state)));
  if (range.state == MemorySnapshot::Range::State::in_use) {
    json += text(", \"scope\": ", detail::json_string(range.scope));
  }
  if (range.state != MemorySnapshot::Range::State::free) {
    json += text(", \"stream\": ", detail::json_string(range.stream));
  }
  return json + "}";
}

std::string json_of(MemorySnapshot::Event const& event, std::vector<std::string> const& streams) {
  auto json = text("{\"ns\": ",
                   event.nanoseconds,
                   ", \"event\": ",
                   detail::json_string(name_of(event.kind)),
                   ", \"address\": ",
                   event.address,
                   ", \"bytes\": ",
                   event.bytes);
  bool const is_of_a_stream = event.kind == MemorySnapshot::Event::Kind::take ||
                              event.kind == MemorySnapshot::Event::Kind::give_back;
  if (is_of_a_stream && event.stream < streams.size()) {
    json += text(", \"stream\": ", detail::json_string(streams[event.stream]));
  }
  if (event.scope != nullptr) {
    json += text(", \"scope\": ", detail::json_string(*event.scope));
  }
  if (event.waits) {
    json += ", \"waits\": true";
  }
  return json + "}";
}

template <class Element, class JsonOf>
std::string list_of(std::vector<Element> const& elements, JsonOf&& json_of_one) {
  std::string json = "[";
  for (std::size_t i = 0; i < elements.size(); ++i) {
    json += text(i == 0 ? "\n  " : ",\n  ", json_of_one(elements[i]));
  }
  return json + "]";
}

}  // namespace

std::string MemorySnapshot::json() const {
  return text(
      "{\"version\": 1,\n \"statistics\": ",
      json_of(statistics),
      ",\n \"streams\": ",
      list_of(by_stream, [](StreamMemory const& of) { return json_of(of); }),
      ",\n \"ranges\": ",
      list_of(ranges, [](MemorySnapshot::Range const& range) { return json_of(range); }),
      ",\n \"events\": ",
      list_of(events, [&](MemorySnapshot::Event const& event) { return json_of(event, streams); }),
      "}\n");
}

}  // namespace msstream
