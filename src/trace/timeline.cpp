// SPDX-License-Identifier: Apache-2.0
#include "base/json_string.hpp"

#include <msstream/base/error.hpp>
#include <msstream/base/text.hpp>
#include <msstream/trace/timeline.hpp>

#include <algorithm>
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
  // Draws spans that began before the recording from its start.
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
    out += text(lane, std::string(label_width - lane.size(), ' '), " |", rows[row], "|\n");
  }
  return out +
         text(std::string(label_width, ' '), "  0 .. ", static_cast<long>(length / 1000), " us\n");
}

std::string Timeline::trace_json() const {
  auto const lanes = lanes_of(spans_);
  std::string out = R"({"displayTimeUnit":"ns","traceEvents":[)";
  bool first = true;
  auto const append = [&](std::string const& event) {
    out += (first ? "\n" : ",\n") + event;
    first = false;
  };
  for (auto const& [lane, row] : lanes) {
    append(text(R"({"ph":"M","pid":1,"tid":)",
                row,
                R"(,"name":"thread_name","args":{"name":)",
                detail::json_string(lane),
                "}}"));
  }
  for (auto const& span : spans_) {
    append(text(R"({"ph":"X","pid":1,"tid":)",
                lanes.at(span.lane),
                R"(,"name":)",
                detail::json_string(span.name),
                R"(,"ts":)",
                span.begin_ns / 1000,
                ",\"dur\":",
                (span.end_ns - span.begin_ns) / 1000,
                "}"));
  }
  return out + "\n]}\n";
}

}  // namespace msstream::trace
