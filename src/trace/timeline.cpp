// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/error.hpp>
#include <msstream/trace/timeline.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace msstream::trace {

namespace {

/// Returns the number in the name at `at`, without zeros before it.
std::string_view digits_at(std::string_view name, std::size_t at) {
  auto const begin = std::min(name.find_first_not_of('0', at), name.size());
  auto const end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  return name.substr(begin, end - begin);
}

/// Returns whether `a` is before `b` if the numbers in them are compared as numbers.
bool is_name_before(std::string_view a, std::string_view b) {
  auto const is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      auto const of_a = digits_at(a, i);
      auto const of_b = digits_at(b, j);
      if (of_a.size() != of_b.size()) {
        return of_a.size() < of_b.size();
      }
      if (of_a != of_b) {
        return of_a < of_b;
      }
      i = static_cast<std::size_t>(of_a.end() - a.begin());
      j = static_cast<std::size_t>(of_b.end() - b.begin());
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i;
      ++j;
    }
  }
  return a.size() - i != b.size() - j ? a.size() - i < b.size() - j : a < b;
}

/// Identifies a lane by its stream and its name, since streams that have one index, one after the
/// other, may have several names. Spans without a position are of no stream.
struct LaneKey {
  std::uint64_t stream;
  std::string_view name;

  explicit LaneKey(Timeline::Span const& span)
      : stream(span.number != 0 ? span.stream : std::numeric_limits<std::uint64_t>::max()),
        name(span.lane) {}
  bool operator<(LaneKey const& other) const {
    return stream != other.stream ? stream < other.stream : is_name_before(name, other.name);
  }
};

/// The lanes of spans.
struct Lanes {
  explicit Lanes(std::vector<Timeline::Span> const& spans) {
    std::map<LaneKey, std::size_t> rows;
    for (auto const& span : spans) {
      rows.try_emplace(LaneKey(span), 0);
    }
    std::map<std::string, int, std::less<>> used;  ///< how often, by name
    for (auto const& [key, row] : rows) {
      used.try_emplace(std::string(key.name), 0);
    }
    for (auto& [key, row] : rows) {
      row = names.size();
      auto& count = used.find(key.name)->second;
      std::string name(key.name);
      while (count > 0 && used.contains(name)) {
        name = fmt::format("{} ({})", key.name, ++count);
      }
      count = std::max(count, 1);
      names.push_back(std::move(name));
    }
    of_spans.reserve(spans.size());
    for (auto const& span : spans) {
      of_spans.push_back(rows.at(LaneKey(span)));
    }
  }

  std::vector<std::string> names;     ///< which differ
  std::vector<std::size_t> of_spans;  ///< the index of each span's lane
};

/// The indices of the spans of each stream, ordered by the spans' numbers. Spans without a position
/// are left out.
class SpansByPosition {
 public:
  explicit SpansByPosition(std::vector<Timeline::Span> const& spans) {
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (spans[i].number != 0) {
        by_stream_[spans[i].stream].emplace(spans[i].number, i);
      }
    }
  }
  /// Returns the last span of the stream up to the number, if there is one.
  [[nodiscard]] std::optional<std::size_t> last_up_to(std::uint32_t stream,
                                                      std::uint64_t number) const {
    auto const found = by_stream_.find(stream);
    if (found == by_stream_.end()) {
      return std::nullopt;
    }
    auto const after = found->second.upper_bound(number);
    return after == found->second.begin() ? std::nullopt : std::optional(std::prev(after)->second);
  }
  /// Returns the first span of the stream from the number on, if there is one.
  [[nodiscard]] std::optional<std::size_t> first_from(std::uint32_t stream,
                                                      std::uint64_t number) const {
    auto const found = by_stream_.find(stream);
    if (found == by_stream_.end()) {
      return std::nullopt;
    }
    auto const at = found->second.lower_bound(number);
    return at == found->second.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  std::map<std::uint32_t, std::map<std::uint64_t, std::size_t>> by_stream_;
};

/// Writes the events of a trace, of one process.
class TraceEvents {
 public:
  TraceEvents(detail::JsonWriter& json, std::optional<int> rank) : json_(json), rank_(rank) {}

  /// Writes a name and a place in the order for the process, and for each lane.
  void name(std::vector<std::string> const& lanes) {
    std::string const process = rank_ ? fmt::format("msstream rank {}", *rank_) : "msstream";
    describe("process_name", 0, "name", process);
    if (rank_) {
      describe("process_sort_index", 0, "sort_index", *rank_);
    }
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      describe("thread_name", lane, "name", lanes[lane]);
      describe("thread_sort_index", lane, "sort_index", lane);
    }
  }
  void span(Timeline::Span const& span, std::size_t lane) {
    begin("X", lane, span.name);
    json_.member("ts", span.begin_ns / 1000);
    json_.member("dur", (span.end_ns - span.begin_ns) / 1000);
    json_.key("args");
    json_.begin_object();
    if (span.number != 0) {
      json_.member("stream", span.stream);
      json_.member("number", span.number);
    }
    json_.member("launch_us", span.launch_ns / 1000);
    if (rank_) {
      json_.member("rank", *rank_);
    }
    json_.end_object();
    json_.end_object();
  }
  /// Writes an arrow, as a pair of flow events with one id: `s` inside the span that is waited for,
  /// just before its end, and `f` at the beginning of the span that waits, to which "bp": "e" binds
  /// it.
  void arrow(Timeline::Span const& from,
             std::size_t lane_of_from,
             Timeline::Span const& to,
             std::size_t lane_of_to) {
    begin_flow("s", lane_of_from, std::max(from.begin_ns, from.end_ns - 1));
    json_.end_object();
    begin_flow("f", lane_of_to, to.begin_ns);
    json_.member("bp", "e");
    json_.end_object();
    ++arrows_;
  }

 private:
  /// Begins an event. Threads have numbers from 1, since viewers take thread 0 for an idle one.
  void begin(char const* phase, std::size_t lane, std::string_view name) {
    json_.begin_object();
    json_.member("ph", phase);
    json_.member("pid", rank_.value_or(1));
    json_.member("tid", lane + 1);
    json_.member("name", name);
  }
  template <class Value>
  void describe(char const* what, std::size_t lane, char const* key, Value const& value) {
    begin("M", lane, what);
    json_.key("args");
    json_.begin_object();
    json_.member(key, value);
    json_.end_object();
    json_.end_object();
  }
  void begin_flow(char const* phase, std::size_t lane, double ns) {
    begin(phase, lane, "wait");
    json_.member("cat", "wait");
    // Viewers look for the other end in all processes, so the ranks have ids of their own.
    json_.member("id", (static_cast<std::uint64_t>(rank_.value_or(0)) << 32U) + arrows_);
    json_.member("ts", ns / 1000);
  }

  detail::JsonWriter& json_;
  std::optional<int> rank_;
  std::uint64_t arrows_ = 0;
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

std::vector<std::string> Timeline::lanes() const {
  return Lanes(spans_).names;
}

std::vector<std::size_t> Timeline::lanes_of_spans() const {
  return Lanes(spans_).of_spans;
}

std::string Timeline::draw(std::size_t columns) const {
  require(columns > 0, "Timeline::draw: no columns to draw in");
  Lanes const lanes(spans_);
  std::size_t label_width = 0;
  for (auto const& lane : lanes.names) {
    label_width = std::max(label_width, lane.size());
  }
  std::vector<std::string> rows(lanes.names.size(), std::string(columns, '.'));
  double const length = std::max(length_ns(), 1.0);
  // Spans that began before the recording are drawn from its start.
  auto const column_of = [&](double time) {
    return static_cast<std::size_t>(std::max(time, 0.0) / length * static_cast<double>(columns));
  };
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    auto const& span = spans_[i];
    auto& row = rows[lanes.of_spans[i]];
    std::size_t const first = std::min(columns - 1, column_of(span.begin_ns));
    std::size_t const last = std::clamp(column_of(span.end_ns), first + 1, columns);
    std::fill(row.begin() + static_cast<long>(first),
              row.begin() + static_cast<long>(last),
              span.name.empty() ? '#' : span.name.front());
  }
  std::string out;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    out += fmt::format("{:{}} |{}|\n", lanes.names[row], label_width, rows[row]);
  }
  return out +
         fmt::format("{:{}}  0 .. {} us\n", "", label_width, static_cast<long>(length / 1000));
}

std::string Timeline::trace_json(std::optional<int> rank) const {
  using Layout = detail::JsonWriter::Layout;
  require(rank.value_or(0) >= 0,
          "Timeline::trace_json: rank {}; expected a number of at least 0",
          rank.value_or(0));
  Lanes const lanes(spans_);
  auto const& lane_of = lanes.of_spans;
  std::string out;
  detail::JsonWriter json(out);
  json.begin_object(Layout::lines);
  json.member("displayTimeUnit", "ns");
  json.key("traceEvents");
  json.begin_array(Layout::lines);
  TraceEvents events(json, rank);
  events.name(lanes.names);
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    events.span(spans_[i], lane_of[i]);
  }
  SpansByPosition const positions(spans_);
  for (auto const& wait : waits_) {
    auto const from = positions.last_up_to(wait.from_stream, wait.from_number);
    auto const to = positions.first_from(wait.to_stream, wait.to_number);
    if (from && to) {
      events.arrow(spans_[*from], lane_of[*from], spans_[*to], lane_of[*to]);
    }
  }
  json.end_array();
  json.end_object();
  return out + "\n";
}

}  // namespace msstream::trace
