// SPDX-License-Identifier: Apache-2.0
#include "load/serve_report.hpp"

#include "cli/outputs.hpp"
#include "cli/report.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace msstream::load {

namespace {

using Json = nlohmann::ordered_json;

double ms(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}
Json in_ms(serve::LatencyHistogram::Summary const& summary) {
  return {{"mean", ms(summary.mean)},
          {"p50", ms(summary.p50)},
          {"p95", ms(summary.p95)},
          {"p99", ms(summary.p99)},
          {"max", ms(summary.max)}};
}

Json of_sample(LoadSample const& sample) {
  bool const has_latency = sample.latency.count > 0;
  return {{"at_s", sample.at_s},
          {"queries_per_s", sample.queries_per_s},
          {"p50_ms", has_latency ? Json(ms(sample.latency.p50)) : Json()},
          {"p99_ms", has_latency ? Json(ms(sample.latency.p99)) : Json()},
          {"in_pool", sample.in_pool},
          {"waiting", sample.waiting},
          {"refused", sample.refused},
          {"reserved_bytes", sample.memory.reserved},
          {"device_bytes", sample.memory.device},
          {"resident_bytes", sample.memory.resident}};
}
/// Returns the minimum and the maximum of each figure over all samples.
Json extremes(Json const& samples) {
  auto found = Json::object();
  for (auto const& sample : samples) {
    for (auto const& [key, value] : sample.items()) {
      if (key == "at_s" || value.is_null()) {
        continue;
      }
      auto& its = found[key];
      if (its.is_null()) {
        its = {{"min", value}, {"max", value}};
      }
      its["min"] = std::min(its["min"], value);
      its["max"] = std::max(its["max"], value);
    }
  }
  return found;
}
/// Adds to a report the rate that was planned, and the peak and the lone queries that were measured
/// on the pool before the load test.
void add_measured_before(Json& report, TrialResult const& trial) {
  if (trial.rate > 0) {
    report["rate"] = trial.rate;
  }
  if (trial.peak_queries_per_s) {
    report["peak_queries_per_s"] = *trial.peak_queries_per_s;
  }
  if (trial.lone) {
    report["lone_ms"] = in_ms(*trial.lone);
    auto const over_lone = [&](std::chrono::nanoseconds time) {
      return ms(time) / ms(trial.lone->p50);
    };
    report["over_lone"] = {{"p50", over_lone(trial.load.latency.p50)},
                           {"p99", over_lone(trial.load.latency.p99)}};
  }
}

}  // namespace

Json report_of(TrialResult const& trial, std::int64_t query_rows) {
  auto const& load = trial.load;
  auto const& counts = load.counts;
  auto const& memory = trial.memory;
  auto const swaps = in_ms(trial.swaps);
  auto samples = Json::array();
  for (auto const& sample : load.samples) {
    samples.push_back(of_sample(sample));
  }
  Json report = {{"captured", trial.captured()},
                 {"seconds", load.seconds},
                 {"queries_per_s", load.queries_per_s()},
                 {"rows_per_s", load.queries_per_s() * static_cast<double>(query_rows)},
                 {"latency_ms", in_ms(load.latency)},
                 {"queue_ms", in_ms(load.queued)},
                 {"device_ms", in_ms(load.on_device)},
                 {"asked_late_ms", in_ms(load.late)},
                 {"in_flight", load.in_flight()},
                 {"in_flight_on_device", load.on_device_together()},
                 {"kernels_in_flight", trial.kernels_in_flight()},
                 {"operations_a_query", trial.cost.operations},
                 {"operations_device_ms", trial.cost.device_ns * 1e-6},
                 {"asked", load.asked},
                 {"admitted", counts.admitted},
                 {"answered", counts.answered},
                 {"refused", counts.refused},
                 {"expired", counts.expired},
                 {"failed", counts.failed},
                 {"queued", counts.queued},
                 {"launches", counts.launches},
                 {"swaps", trial.swaps.count},
                 {"swap_ms", {{"mean", swaps.at("mean")}, {"max", swaps.at("max")}}},
                 {"checked", load.checked},
                 {"mismatches", load.mismatches},
                 {"memory",
                  {{"weights_bytes", memory.weights},
                   {"replica_bytes", memory.replica.in_use},
                   {"replica_reserved_bytes", memory.replica.reserved},
                   {"replica_device_bytes", memory.replica.device},
                   {"replica_pinned_bytes", memory.replica.pinned},
                   {"reserved_bytes", memory.reserved}}},
                 {"pool",
                  {{"captured_steps", trial.pool.captured_steps},
                   {"failed_captures", trial.pool.failed_captures},
                   {"moved", trial.pool.moved},
                   {"sound_replicas", trial.pool.sound_replicas},
                   {"callbacks_threw", trial.pool.callbacks_threw},
                   {"poller_sleeps", trial.pool.poller_sleeps}}},
                 {"sampled", extremes(samples)}};
  add_measured_before(report, trial);
  report["samples"] = std::move(samples);
  return report;
}

void add_comparisons(Json& report, ServeComparisons const& comparisons, std::int64_t query_rows) {
  auto const result = report.at("result");  // a copy: adding to the report moves its parts
  auto const ratio = [](Json const& over, Json const& under) {
    return over.get<double>() / under.get<double>();
  };
  Json ratios = Json::object();
  if (comparisons.baseline) {
    auto const baseline = report_of(*comparisons.baseline, query_rows);
    ratios["throughput"] = ratio(result.at("queries_per_s"), baseline.at("queries_per_s"));
    for (auto const* const percentile : {"p50", "p99"}) {
      ratios[percentile] =
          ratio(result.at("latency_ms").at(percentile), baseline.at("latency_ms").at(percentile));
    }
    report["baseline"] = baseline;
    report["over_baseline"] = ratios;
  }
  if (auto const& raw = comparisons.raw_loop) {
    report["raw_loop"] = {{"queries_per_s", raw->queries_per_s}, {"threads", raw->threads}};
    report["over_raw_loop"] = {
        {"throughput",
         ratio(result.at("queries_per_s"), report.at("raw_loop").at("queries_per_s"))}};
  }
}

std::string placement_text(ServeOptions const& options) {
  return fmt::format("{}{}{}{} runtime{}",
                     options.replicas,
                     options.replicas == 1 ? " replica" : " replicas",
                     options.no_capture ? ", eager; " : ", captured; ",
                     name_of(options.runtime),
                     options.runtime == cli::RuntimeChoice::host ? " (no GPU is used)" : "");
}

void conclude(ServeOptions const& options, Json const& report) {
  if (!options.report.empty()) {
    cli::attempt_output("--report", [&] { cli::write_report(options.report, report); });
  }
  if (!options.quiet) {
    cli::print(serve_summary(report));
  }
  auto const& result = report.at("result");
  if (result.at("mismatches") != 0) {
    auto const number = [&](char const* of) {
      return report::grouped(result.at(of).get<std::int64_t>());
    };
    throw std::runtime_error(
        fmt::format("{} of {} answers differ from what the model says to the query alone",
                    number("mismatches"),
                    number("checked")));
  }
}

}  // namespace msstream::load
