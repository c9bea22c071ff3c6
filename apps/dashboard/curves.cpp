// SPDX-License-Identifier: Apache-2.0
#include "dashboard/curves.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>

namespace msstream::dashboard {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kMsARatePoint = 500;
constexpr std::size_t kMaxTextBytes = 2000;

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// Returns the text, cut if it is too long.
std::string shortened(std::string_view text, std::size_t most) {
  return text.size() <= most ? std::string(text) : fmt::format("{}…", text.substr(0, most));
}
std::string short_name(std::string_view name) {
  return shortened(name, Curves::kMaxNameBytes);
}

/// Returns the number, or a text if it is not finite, which JSON cannot write as a number.
Json number_of(double number) {
  if (std::isfinite(number)) {
    return number;
  }
  return std::isnan(number) ? "NaN" : number > 0 ? "infinity" : "-infinity";
}

char const* name_of(EndStatus status) {
  switch (status) {
    case EndStatus::finished:
      return "finished";
    case EndStatus::diverged:
      return "diverged";
    case EndStatus::failed:
      break;
  }
  return "failed";
}

/// Writes JSON; bytes that are not UTF-8 become U+FFFD.
std::string text_of(Json const& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns a curve: `y` are the means of the values of each point, of which there are `values` in
/// all points but the last. If points have several values, `low` and `high` are their extremes.
Json json_of(Series const& series) {
  auto xs = Json::array();
  auto ys = Json::array();
  auto lows = Json::array();
  auto highs = Json::array();
  for (auto const& point : series.points()) {
    xs.push_back(point.x);
    ys.push_back(point.y);
    lows.push_back(point.low);
    highs.push_back(point.high);
  }
  Json curve{{"values", series.values_a_point()}, {"x", std::move(xs)}, {"y", std::move(ys)}};
  if (series.values_a_point() > 1) {
    curve["low"] = std::move(lows);
    curve["high"] = std::move(highs);
  }
  return curve;
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

RecordedStep::RecordedStep(std::int64_t number,
                           trace::Timeline recorded,
                           std::chrono::steady_clock::time_point time)
    : step(number), at(time), length_ns(recorded.length_ns()), timeline(std::move(recorded)) {
  if (timeline.spans().size() > kMaxSpans) {
    auto spans = std::move(timeline).spans();
    left_out = spans.size() - kMaxSpans;
    spans.erase(spans.begin() + kMaxSpans, spans.end());
    spans.shrink_to_fit();
    timeline = trace::Timeline(std::move(spans));
  }
}

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

void Curves::leave_out_steps(std::int64_t count) noexcept {
  steps_ += count;
  left_out_ += count;
}

void Curves::add_metric(std::int64_t step, std::string const& name, double value) {
  auto const shown = short_name(name);
  auto found = std::ranges::find(metrics_, shown, &Metric::name);
  if (found == metrics_.end()) {
    if (metrics_.size() == kMaxMetrics) {
      return;
    }
    metrics_.push_back({shown, value, Series(256)});
    found = metrics_.end() - 1;
  }
  found->value = value;
  found->curve.add(static_cast<double>(step), value);
}

void Curves::set_memory(std::int64_t step,
                        MemoryStatistics const& statistics,
                        std::vector<StreamMemory> const& by_stream) {
  memory_ = statistics;
  live_by_group_.clear();
  std::map<std::string, std::size_t> places;
  for (auto const& stream : by_stream) {
    auto const group = short_name(group_of(stream.stream));
    auto const [place, is_new] = places.emplace(group, live_by_group_.size());
    if (is_new) {
      live_by_group_.emplace_back(group, 0);
    }
    live_by_group_[place->second].second += stream.live_bytes;
  }
  for (auto const& [group, bytes] : live_by_group_) {
    if (group_curves_.size() == kMaxGroups) {
      break;
    }
    if (std::ranges::find(group_curves_, group, &GroupMemory::name) == group_curves_.end()) {
      group_curves_.push_back({group, Series(kMaxGroupPoints)});
    }
  }
  for (auto& [group, curve] : group_curves_) {
    auto const place = places.find(group);
    auto const bytes = place != places.end() ? live_by_group_[place->second].second : 0;
    curve.add(static_cast<double>(step), static_cast<double>(bytes));
  }
  if (live_by_group_.size() > kMaxGroups) {
    std::ranges::stable_sort(
        live_by_group_, std::greater(), [](auto const& entry) { return entry.second; });
    std::size_t others = 0;
    for (auto i = kMaxGroups; i < live_by_group_.size(); ++i) {
      others += live_by_group_[i].second;
    }
    live_by_group_.resize(kMaxGroups);
    live_by_group_.emplace_back("others", others);
    live_by_group_.shrink_to_fit();
  }
  live_bytes_.add(static_cast<double>(step), static_cast<double>(statistics.live_bytes));
  reserved_bytes_.add(static_cast<double>(step), static_cast<double>(statistics.reserved_bytes));
}

std::string Curves::state_json(std::chrono::steady_clock::time_point now) const {
  Json metrics = Json::array();
  for (auto const& [name, value, curve] : metrics_) {
    metrics.push_back({{"name", name}, {"value", number_of(value)}, {"curve", json_of(curve)}});
  }
  Json groups = Json::array();
  for (auto const& [name, bytes] : live_by_group_) {
    groups.push_back({{"name", name}, {"bytes", bytes}});
  }
  Json memory = nullptr;
  if (memory_) {
    Json group_curves = Json::array();
    for (auto const& [name, curve] : group_curves_) {
      group_curves.push_back({{"name", name}, {"curve", json_of(curve)}});
    }
    memory = {{"live_bytes", memory_->live_bytes},
              {"peak_live_bytes", memory_->peak_live_bytes},
              {"reserved_bytes", memory_->reserved_bytes},
              {"groups", std::move(groups)},
              {"group_curves", std::move(group_curves)},
              {"live", json_of(live_bytes_)},
              {"reserved", json_of(reserved_bytes_)}};
  }
  return text_of(
      {{"program", short_name(description_.program)},
       {"what", short_name(description_.what)},
       {"unit", description_.unit},
       {"ranks", description_.ranks},
       {"part", short_name(part_)},
       {"step", steps_},
       {"step_age_s", step_at_ ? Json(seconds(now - *step_at_)) : Json(nullptr)},
       {"rows", rows_},
       {"loss", has_loss_ ? number_of(loss_) : Json(nullptr)},
       {"rate", rate_ ? Json(*rate_) : Json(nullptr)},
       {"step_ms", percentiles_of(step_ms_)},
       {"steps_left_out", left_out_},
       {"losses", json_of(losses_)},
       {"rates", json_of(rates_)},
       {"metrics", std::move(metrics)},
       {"memory", std::move(memory)},
       {"end",
        end_ ? Json{{"status", name_of(end_->status)},
                    {"text", shortened(end_->text, kMaxTextBytes)}}
             : Json(nullptr)},
       {"timeline_step", recorded_ ? recorded_->step : 0},
       {"timeline_age_s", recorded_ ? Json(seconds(now - recorded_->at)) : Json(nullptr)}});
}

std::string Curves::timeline_json(std::chrono::steady_clock::time_point /*now*/) const {
  auto lanes = Json::array();
  auto names = Json::array();
  auto spans = Json::array();
  if (recorded_) {
    auto const& timeline = recorded_->timeline;
    for (auto const& lane : timeline.lanes()) {
      lanes.push_back(short_name(lane));
    }
    auto const lane_of = timeline.lanes_of_spans();
    std::map<std::string_view, std::size_t> known_names;
    for (std::size_t i = 0; i < timeline.spans().size(); ++i) {
      auto const& span = timeline.spans()[i];
      auto const [name, is_new] = known_names.try_emplace(span.name, names.size());
      if (is_new) {
        names.push_back(short_name(span.name));
      }
      spans.push_back({lane_of[i],
                       name->second,
                       span.begin_ns / 1000,
                       (span.end_ns - span.begin_ns) / 1000,
                       span.stream,
                       span.number});
    }
  }
  return text_of({{"step", recorded_ ? recorded_->step : 0},
                  {"length_us", recorded_ ? recorded_->length_ns / 1000 : 0.},
                  {"lanes", std::move(lanes)},
                  {"names", std::move(names)},
                  {"spans", std::move(spans)},
                  {"left_out", recorded_ ? recorded_->left_out : 0}});
}

}  // namespace msstream::dashboard
