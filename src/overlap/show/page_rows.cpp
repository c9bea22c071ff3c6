// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/page_rows.hpp"

#include "overlap/find/tolerances.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

namespace msstream::overlap {
namespace {

/// Keeps at most `most` rows: those that are marked in `needed`, and the longest ones. Returns how
/// many were dropped.
template <class Element>
std::size_t keep_longest(std::vector<Index>& rows,
                         std::size_t most,
                         std::vector<Element> const& elements,
                         std::vector<bool> const& needed) {
  if (rows.size() <= most) {
    return 0;
  }
  auto const rank_of = [&](Index row) {
    return std::tuple(!needed[row], -elements[row].time.length(), row);
  };
  auto const end = rows.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(
      rows.begin(), end, rows.end(), [&](Index a, Index b) { return rank_of(a) < rank_of(b); });
  auto const dropped = rows.size() - most;
  rows.erase(end, rows.end());
  std::ranges::sort(rows);
  return dropped;
}

/// Divides rows into lanes, ordered by `order`, and numbers them through all lanes in `places`.
template <class LaneOf, class Order>
std::vector<PageLane> lanes_of(std::vector<Index> const& rows,
                               std::size_t lane_count,
                               LaneOf lane_of,
                               Order order,
                               std::vector<Index>& places) {
  std::vector<PageLane> all(lane_count);
  for (auto const row : rows) {
    all.at(lane_of(row)).rows.push_back(row);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].of = static_cast<Index>(i);
  }
  std::erase_if(all, [](PageLane const& lane) { return lane.rows.empty(); });
  std::ranges::stable_sort(all, {}, [&](PageLane const& lane) { return order(lane.of); });
  Index place = 0;
  for (auto const& lane : all) {
    for (auto const row : lane.rows) {
      places[row] = place++;
    }
  }
  return all;
}

/// Returns, for each call, the innermost range of its thread in which it began, of those that
/// `accept` takes.
template <class Accept>
std::vector<Index> ranges_around(Recording const& recording, Accept accept) {
  std::vector<Index> around(recording.calls.size(), kNone);
  std::vector<std::vector<Index>> open(recording.threads.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    auto const& call = recording.calls[i];
    for (; next < recording.ranges.size() && recording.ranges[next].time.begin <= call.time.begin;
         ++next) {
      auto const thread = recording.ranges[next].thread;
      if (thread != kNone && accept(recording.ranges[next])) {
        auto& ranges = open.at(thread);
        auto const begin = recording.ranges[next].time.begin;
        while (!ranges.empty() && recording.ranges[ranges.back()].time.end <= begin) {
          ranges.pop_back();
        }
        ranges.push_back(static_cast<Index>(next));
      }
    }
    auto& ranges = open.at(call.thread);
    while (!ranges.empty() && recording.ranges[ranges.back()].time.end <= call.time.begin) {
      ranges.pop_back();
    }
    if (!ranges.empty()) {
      around[i] = ranges.back();
    }
  }
  return around;
}

}  // namespace

PageRows::PageRows(Explained const& explained, std::size_t most_rows)
    : explained_(explained),
      places_(explained.recording.activities.size(), kNone),
      call_places_(explained.recording.calls.size(), kNone),
      device_places_(explained.recording.devices.size(), kNone) {
  auto const& recording = explained.recording;
  auto const& report = explained.report;
  for (std::size_t i = 0; i < report.devices.size(); ++i) {
    device_places_.at(report.devices[i].device) = static_cast<Index>(i);
  }
  std::vector<bool> needed(recording.activities.size());
  std::vector<bool> needed_calls(recording.calls.size());
  for (auto const& finding : report.findings) {
    for (auto const& evidence : finding.evidence) {
      for (auto const index : {evidence.activity, evidence.other}) {
        if (index != kNone) {
          needed.at(index) = true;
        }
      }
      if (evidence.call != kNone) {
        needed_calls.at(evidence.call) = true;
      }
    }
  }
  auto const device_of = [&](Index stream) {
    return device_places_.at(recording.streams.at(stream).device);
  };

  std::vector<Index> rows;
  for (std::size_t i = 0; i < recording.activities.size(); ++i) {
    auto const& activity = recording.activities[i];
    if (device_of(activity.stream) != kNone && (needed[i] || is_in(activity.time, report.window))) {
      rows.push_back(static_cast<Index>(i));
    }
  }
  left_out_ = keep_longest(rows, most_rows, recording.activities, needed);
  row_count_ = rows.size();
  lanes_ = lanes_of(
      rows,
      recording.streams.size(),
      [&](Index row) { return recording.activities[row].stream; },
      [&](Index stream) { return std::pair(device_of(stream), recording.streams[stream].number); },
      places_);

  for (auto const row : rows) {
    if (auto const call = recording.activities[row].call; call != kNone) {
      needed_calls.at(call) = true;
    }
  }
  std::vector<Index> calls;
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    if (needed_calls[i] || is_in(recording.calls[i].time, report.window)) {
      calls.push_back(static_cast<Index>(i));
    }
  }
  left_out_ += keep_longest(calls, most_rows, recording.calls, needed_calls);
  call_count_ = calls.size();
  auto const same = [](Index thread) { return thread; };
  call_lanes_ = lanes_of(
      calls,
      recording.threads.size(),
      [&](Index row) { return recording.calls[row].thread; },
      same,
      call_places_);

  std::vector<Index> ranges;
  for (std::size_t i = 0; i < recording.ranges.size(); ++i) {
    auto const& range = recording.ranges[i];
    if (range.kind != RangeKind::on_device && range.thread != kNone &&
        is_in(range.time, report.window)) {
      ranges.push_back(static_cast<Index>(i));
    }
  }
  std::vector<Index> places(recording.ranges.size());
  keep_longest(ranges, most_rows, recording.ranges, std::vector<bool>(recording.ranges.size()));
  range_lanes_ = lanes_of(
      ranges,
      recording.threads.size(),
      [&](Index row) { return recording.ranges[row].thread; },
      same,
      places);
}

std::string PageRows::title_of_thread(Index thread) const {
  auto const& described = explained_.recording.threads.at(thread);
  auto const name = explained_.recording.names[described.name];
  auto const number = std::to_string(described.number);
  if (name.empty()) {
    return "thread " + number;
  }
  return name.find(number) == std::string_view::npos ? fmt::format("{} ({})", name, number)
                                                     : std::string(name);
}

std::vector<PageStart> starts_of(Explained const& explained) {
  auto const& [recording, report] = explained;
  std::vector<PageStart> starts(recording.activities.size());
  for (auto const& device : report.devices) {
    auto span = device.spans.begin();
    Ns lost_since = 0;
    for (std::size_t i = 0; i < recording.activities.size(); ++i) {
      auto const& activity = recording.activities[i];
      if (recording.streams.at(activity.stream).device != device.device) {
        continue;
      }
      // Goes to the last span that ends when the activity begins, or before. Spans of one class and
      // cause that follow each other count as one.
      while (span != device.spans.end() && span->time.end <= activity.time.begin) {
        bool const continues = span != device.spans.begin() &&
                               std::prev(span)->kind == span->kind &&
                               std::prev(span)->cause == span->cause;
        lost_since = continues ? lost_since : span->time.begin;
        ++span;
      }
      if (span == device.spans.begin()) {
        continue;
      }
      auto const ended = std::prev(span);
      if (ended->time.end != activity.time.begin || !ended->cause) {
        continue;
      }
      starts[i] = {ended->cause, ended->time.end - lost_since};
      // The latency between two activities hides what held the second one until then.
      if (auto const before = ended == device.spans.begin() ? ended : std::prev(ended);
          starts[i].charged <= tolerance::of_order(recording) && before->time.end == lost_since &&
          before->cause && before->time.length() > starts[i].charged) {
        starts[i] = {before->cause, before->time.length()};
      }
    }
  }
  // A finding knows more than the time that ended when the activity began.
  for (auto const& finding : report.findings) {
    for (auto const& evidence : finding.evidence) {
      if (evidence.activity != kNone && !starts.at(evidence.activity).cause) {
        starts[evidence.activity] = {finding.cause, 0};
      }
    }
  }
  return starts;
}

std::vector<Index> operations_of(Recording const& recording) {
  return ranges_around(recording, [](Range const&) { return true; });
}

std::vector<Index> named_ranges_of(Recording const& recording) {
  auto named = ranges_around(recording,
                             [](Range const& range) { return range.kind != RangeKind::operation; });
  auto const all = operations_of(recording);
  for (std::size_t i = 0; i < named.size(); ++i) {
    named[i] = named[i] == kNone ? all[i] : named[i];
  }
  return named;
}

}  // namespace msstream::overlap
