// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/recording.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

/// Orders elements by time, the longer of two that begin together first, and returns the new place
/// of each old one.
template <class Element>
std::vector<Index> sort_by_time(std::vector<Element>& elements) {
  std::vector<Index> order(elements.size());
  std::iota(order.begin(), order.end(), Index{0});
  auto const before = [&](Index a, Index b) {
    auto const& first = elements[a].time;
    auto const& second = elements[b].time;
    return first.begin != second.begin ? first.begin < second.begin : first.end > second.end;
  };
  if (std::is_sorted(order.begin(), order.end(), before)) {
    return order;
  }
  std::stable_sort(order.begin(), order.end(), before);
  std::vector<Index> places(elements.size());
  std::vector<Element> sorted;
  sorted.reserve(elements.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    sorted.push_back(std::move(elements[order[i]]));
    places[order[i]] = static_cast<Index>(i);
  }
  elements = std::move(sorted);
  return places;
}

void renumber(Index& index, std::vector<Index> const& places) {
  if (index != kNone) {
    index = places.at(index);
  }
}

/// Marks the streams whose number a stream of another context of their device has, too.
void mark_shared_numbers(std::vector<Stream>& streams) {
  std::map<std::pair<Index, std::int64_t>, std::vector<Stream*>> of_number;
  for (auto& stream : streams) {
    of_number[{stream.device, stream.number}].push_back(&stream);
  }
  for (auto const& entry : of_number) {
    auto const& equal = entry.second;
    bool const are_shared = std::ranges::any_of(
        equal, [&](Stream const* stream) { return stream->context != equal.front()->context; });
    for (auto* const stream : equal) {
      stream->shares_number = are_shared;
    }
  }
}

}  // namespace

void Recording::sort() {
  auto const calls_at = sort_by_time(calls);
  auto const activities_at = sort_by_time(activities);
  sort_by_time(syncs);
  sort_by_time(overheads);
  sort_by_time(ranges);
  for (auto& activity : activities) {
    renumber(activity.call, calls_at);
  }
  for (auto& sync : syncs) {
    renumber(sync.call, calls_at);
    renumber(sync.record_call, calls_at);
  }
  for (auto& record : event_records) {
    renumber(record.call, calls_at);
  }
  std::ranges::sort(event_records, {}, [](EventRecord const& record) { return record.call; });
  for (auto& dependency : dependencies) {
    renumber(dependency.before, activities_at);
    renumber(dependency.after, activities_at);
  }
  mark_shared_numbers(streams);
}

std::string Recording::text_of_stream(Stream const& own) const {
  return own.shares_number && own.context != kUnknown
             ? fmt::format("stream {} of context {}", own.number, own.context)
             : fmt::format("stream {}", own.number);
}

std::optional<Interval> Recording::extent() const {
  if (activities.empty()) {
    return std::nullopt;
  }
  Interval extent = activities.front().time;
  for (auto const& activity : activities) {
    extent.begin = std::min(extent.begin, activity.time.begin);
    extent.end = std::max(extent.end, activity.time.end);
  }
  return extent;
}

}  // namespace msstream::overlap
