// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/error.hpp>
#include <msstream/trace/timeline.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace msstream::trace {

namespace {

std::map<std::string, std::size_t> lanes_of(std::vector<Timeline::Span> const& spans) {
  std::map<std::string, std::size_t> lanes;
  for (auto const& span : spans) {
    lanes.emplace(span.lane, 0);
  }
  std::size_t next = 0;
  for (auto& [lane, row] : lanes) {
    row = next++;
  }
  return lanes;
}

/// The spans of each stream, ordered by their numbers. Spans without a position are left out.
class SpansByPosition {
 public:
  using Span = Timeline::Span;

  explicit SpansByPosition(std::vector<Span> const& spans) {
    for (auto const& span : spans) {
      if (span.number != 0) {
        by_stream_[span.stream].emplace(span.number, &span);
      }
    }
  }
  /// Returns the last span of the stream up to the number; null if there is none.
  [[nodiscard]] Span const* last_up_to(std::uint32_t stream, std::uint64_t number) const {
    auto const found = by_stream_.find(stream);
    if (found == by_stream_.end()) {
      return nullptr;
    }
    auto const after = found->second.upper_bound(number);
    return after == found->second.begin() ? nullptr : std::prev(after)->second;
  }
  /// Returns the first span of the stream from the number on; null if there is none.
  [[nodiscard]] Span const* first_from(std::uint32_t stream, std::uint64_t number) const {
    auto const found = by_stream_.find(stream);
    if (found == by_stream_.end()) {
      return nullptr;
    }
    auto const at = found->second.lower_bound(number);
    return at == found->second.end() ? nullptr : at->second;
  }

 private:
  std::map<std::uint32_t, std::map<std::uint64_t, Span const*>> by_stream_;
};

}  // namespace

double Timeline::length_ns() const noexcept {
  double end = 0;
  for (auto const& span : spans_) {
    end = std::max(end, span.end_ns);
  }
  return end;
}

double Timeline::overlapped_ns(std::size_t count) const {
  std::vector<std::pair<double, int>> edges;
  for (auto const& span : spans_) {
    edges.emplace_back(span.begin_ns, 1);
    edges.emplace_back(span.end_ns, -1);
  }
  std::sort(edges.begin(), edges.end());
  double total = 0;
  double since = 0;
  long running = 0;
  for (auto const& [time, change] : edges) {
    if (running >= static_cast<long>(count)) {
      total += time - since;
    }
    since = time;
    running += change;
  }
  return total;
}

std::string Timeline::draw(std::size_t columns) const {
  require(columns > 0, "Timeline::draw: no columns to draw in");
  auto const lanes = lanes_of(spans_);
  std::size_t label_width = 0;
  for (auto const& [lane, row] : lanes) {
    label_width = std::max(label_width, lane.size());
  }
  std::vector<std::string> rows(lanes.size(), std::string(columns, '.'));
  double const length = std::max(length_ns(), 1.0);
  // Spans that began before the recording are drawn from its start.
  auto const column_of = [&](double time) {
    return static_cast<std::size_t>(std::max(time, 0.0) / length * static_cast<double>(columns));
  };
  for (auto const& span : spans_) {
    auto& row = rows[lanes.at(span.lane)];
    std::size_t const first = std::min(columns - 1, column_of(span.begin_ns));
    std::size_t const last = std::clamp(column_of(span.end_ns), first + 1, columns);
    std::fill(row.begin() + static_cast<long>(first),
              row.begin() + static_cast<long>(last),
              span.name.empty() ? '#' : span.name.front());
  }
  std::string out;
  for (auto const& [lane, row] : lanes) {
    out += fmt::format("{:{}} |{}|\n", lane, label_width, rows[row]);
  }
  return out +
         fmt::format("{:{}}  0 .. {} us\n", "", label_width, static_cast<long>(length / 1000));
}

std::string Timeline::trace_json() const {
  using Layout = detail::JsonWriter::Layout;
  auto const lanes = lanes_of(spans_);
  std::string out;
  detail::JsonWriter json(out);
  json.begin_object(Layout::lines);
  json.member("displayTimeUnit", "ns");
  json.key("traceEvents");
  json.begin_array(Layout::lines);
  auto const begin_event = [&](char const* phase, std::size_t row, std::string_view name) {
    json.begin_object();
    json.member("ph", phase);
    json.member("pid", 1);
    json.member("tid", row);
    json.member("name", name);
  };
  for (auto const& [lane, row] : lanes) {
    begin_event("M", row, "thread_name");
    json.key("args");
    json.begin_object();
    json.member("name", lane);
    json.end_object();
    json.end_object();
  }
  for (auto const& span : spans_) {
    begin_event("X", lanes.at(span.lane), span.name);
    json.member("ts", span.begin_ns / 1000);
    json.member("dur", (span.end_ns - span.begin_ns) / 1000);
    json.end_object();
  }
  // An arrow is a pair of flow events with one id: `s` inside the slice that is waited for, just
  // before its end, and `f` at the beginning of the slice that waits, to which "bp": "e" binds it.
  SpansByPosition const positions(spans_);
  std::size_t id = 0;
  for (auto const& wait : waits_) {
    auto const* const from = positions.last_up_to(wait.from_stream, wait.from_number);
    auto const* const to = positions.first_from(wait.to_stream, wait.to_number);
    if (from == nullptr || to == nullptr) {
      continue;
    }
    auto const flow = [&](char const* phase, Span const& span, double ns) {
      begin_event(phase, lanes.at(span.lane), "wait");
      json.member("cat", "wait");
      json.member("id", id);
      json.member("ts", ns / 1000);
    };
    flow("s", *from, std::max(from->begin_ns, from->end_ns - 1));
    json.end_object();
    flow("f", *to, to->begin_ns);
    json.member("bp", "e");
    json.end_object();
    ++id;
  }
  json.end_array();
  json.end_object();
  return out + "\n";
}

}  // namespace msstream::trace
