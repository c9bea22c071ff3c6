// SPDX-License-Identifier: Apache-2.0
#include "dashboard/curves.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

namespace msstream::dashboard {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kMsARatePoint = 500;

/// Returns the name, cut if it is too long.
std::string short_name(std::string_view name) {
  return name.size() <= Curves::kMaxNameBytes
             ? std::string(name)
             : fmt::format("{}…", name.substr(0, Curves::kMaxNameBytes));
}

/// Writes JSON; bytes that are not UTF-8 become U+FFFD.
std::string text_of(Json const& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json json_of(Series const& series) {
  auto xs = Json::array();
  auto ys = Json::array();
  for (auto const& [x, y] : series.points()) {
    xs.push_back(x);
    ys.push_back(y);
  }
  return {{"x", std::move(xs)}, {"y", std::move(ys)}};
}

/// Returns the name of a stream's group: "group 2" of "group 2 compute".
std::string_view group_of(std::string_view stream) {
  for (std::string_view const kind : {" compute", " h2d", " d2h"}) {
    if (stream.ends_with(kind)) {
      return stream.substr(0, stream.size() - kind.size());
    }
  }
  return stream;
}

Json percentiles_of(std::vector<double> sorted) {
  if (sorted.empty()) {
    return nullptr;
  }
  std::ranges::sort(sorted);
  auto const at = [&](double percent) {
    auto const last = static_cast<double>(sorted.size() - 1);
    return sorted[static_cast<std::size_t>(std::lround(last * percent / 100))];
  };
  return {{"count", sorted.size()},
          {"p5", at(5)},
          {"p50", at(50)},
          {"p95", at(95)},
          {"p99", at(99)},
          {"most", sorted.back()}};
}

}  // namespace

void Curves::add_step(float loss, double ms, std::int64_t rows) {
  ++steps_;
  rows_ += rows;
  loss_ = loss;
  has_loss_ = true;
  losses_.add(static_cast<double>(steps_), loss);
  if (ms < 0) {
    return;
  }
  if (step_ms_.size() < kMaxStepTimes) {
    step_ms_.push_back(ms);
  } else {
    step_ms_[next_step_ms_++ % kMaxStepTimes] = ms;
  }
  rate_ms_ += ms;
  rate_rows_ += rows;
  if (rate_ms_ >= kMsARatePoint) {
    rate_ = static_cast<double>(rate_rows_) / rate_ms_ * 1000;
    rates_.add(static_cast<double>(steps_), *rate_);
    rate_ms_ = 0;
    rate_rows_ = 0;
  }
}

void Curves::leave_out_steps(std::int64_t count) {
  steps_ += count;
  left_out_ += count;
}

void Curves::add_metric(std::int64_t step, std::string const& name, double value) {
  auto const shown = short_name(name);
  auto found = std::ranges::find(metrics_, shown, [](auto const& metric) { return metric.first; });
  if (found == metrics_.end()) {
    if (metrics_.size() == kMaxMetrics) {
      return;
    }
    metrics_.emplace_back(shown, Series(256));
    found = metrics_.end() - 1;
  }
  found->second.add(static_cast<double>(step), value);
}

void Curves::set_memory(std::int64_t step,
                        MemoryStatistics const& statistics,
                        std::vector<StreamMemory> const& by_stream) {
  memory_ = statistics;
  live_by_group_.clear();
  for (auto const& stream : by_stream) {
    auto const group = short_name(group_of(stream.stream));
    auto found =
        std::ranges::find(live_by_group_, group, [](auto const& entry) { return entry.first; });
    if (found == live_by_group_.end()) {
      live_by_group_.emplace_back(group, 0);
      found = live_by_group_.end() - 1;
    }
    found->second += stream.live_bytes;
  }
  live_bytes_.add(static_cast<double>(step), static_cast<double>(statistics.live_bytes));
  reserved_bytes_.add(static_cast<double>(step), static_cast<double>(statistics.reserved_bytes));
}

void Curves::set_timeline(std::int64_t step, trace::Timeline timeline) {
  timeline_step_ = step;
  timeline_ = std::move(timeline);
}

std::string Curves::state_json() const {
  Json metrics = Json::array();
  for (auto const& [name, series] : metrics_) {
    metrics.push_back({{"name", name}, {"curve", json_of(series)}});
  }
  Json groups = Json::array();
  for (auto const& [name, bytes] : live_by_group_) {
    groups.push_back({{"name", name}, {"bytes", bytes}});
  }
  Json memory = nullptr;
  if (memory_) {
    memory = {{"live_bytes", memory_->live_bytes},
              {"peak_live_bytes", memory_->peak_live_bytes},
              {"reserved_bytes", memory_->reserved_bytes},
              {"groups", std::move(groups)},
              {"live", json_of(live_bytes_)},
              {"reserved", json_of(reserved_bytes_)}};
  }
  return text_of({{"program", short_name(description_.program)},
                  {"what", short_name(description_.what)},
                  {"unit", description_.unit},
                  {"ranks", description_.ranks},
                  {"part", short_name(part_)},
                  {"step", steps_},
                  {"rows", rows_},
                  {"loss", has_loss_ ? Json(loss_) : Json(nullptr)},
                  {"rate", rate_ ? Json(*rate_) : Json(nullptr)},
                  {"step_ms", percentiles_of(step_ms_)},
                  {"steps_left_out", left_out_},
                  {"losses", json_of(losses_)},
                  {"rates", json_of(rates_)},
                  {"metrics", std::move(metrics)},
                  {"memory", std::move(memory)},
                  {"timeline_step", timeline_step_}});
}

std::string Curves::timeline_json() const {
  auto lanes = Json::array();
  auto names = Json::array();
  auto spans = Json::array();
  std::size_t left_out = 0;
  double length_us = 0;
  if (timeline_) {
    std::map<std::string, std::size_t> rows;
    std::map<std::string, std::size_t> known_names;
    for (auto const& span : timeline_->spans()) {
      rows.emplace(span.lane, 0);
    }
    for (auto& [lane, row] : rows) {
      row = lanes.size();
      lanes.push_back(short_name(lane));
    }
    for (auto const& span : timeline_->spans()) {
      if (spans.size() == kMaxSpans) {
        left_out = timeline_->spans().size() - kMaxSpans;
        break;
      }
      auto const [name, is_new] = known_names.emplace(span.name, names.size());
      if (is_new) {
        names.push_back(short_name(span.name));
      }
      spans.push_back({rows.at(span.lane),
                       name->second,
                       span.begin_ns / 1000,
                       (span.end_ns - span.begin_ns) / 1000});
    }
    length_us = timeline_->length_ns() / 1000;
  }
  return text_of({{"step", timeline_step_},
                  {"length_us", length_us},
                  {"lanes", std::move(lanes)},
                  {"names", std::move(names)},
                  {"spans", std::move(spans)},
                  {"left_out", left_out}});
}

}  // namespace msstream::dashboard
