// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/text.hpp>
#include <msstream/support/progress.hpp>
#include <msstream/support/report.hpp>
#include <msstream/support/serve_report.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <iostream>
#include <stdexcept>
#include <string_view>

namespace msstream::support {

namespace {

using Json = nlohmann::ordered_json;

Json in_ms(serve::LatencySummary const& summary) {
  auto const ms = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  return {{"mean", ms(summary.mean)},
          {"p50", ms(summary.p50)},
          {"p95", ms(summary.p95)},
          {"p99", ms(summary.p99)},
          {"max", ms(summary.max)}};
}

std::string padded(std::string const& word, std::size_t width) {
  return std::string(width > word.size() ? width - word.size() : 0, ' ') + word;
}
std::string count_of(Json const& number) {
  return grouped(std::llround(number.get<double>()));
}
std::string digits(Json const& number, int after_point) {
  return number.is_null() ? "?" : fixed(number.get<double>(), after_point);
}
std::string mebibytes(Json const& bytes) {
  constexpr double kMebibyte = 1 << 20;
  return text(fixed(bytes.get<double>() / kMebibyte, 1), " MiB");
}

std::string times_table(Json const& result) {
  constexpr std::size_t kColumn = 11;
  std::string lines = "          ms";
  for (auto const* const column : {"mean", "p50", "p95", "p99", "max"}) {
    lines += padded(column, kColumn);
  }
  for (auto const& [title, key] : {std::pair{"latency", "latency_ms"},
                                   {"in the queue", "queue_ms"},
                                   {"on the device", "device_ms"}}) {
    lines += text("\n", title, std::string(14 - std::string_view(title).size(), ' '));
    for (auto const& value : result.at(key)) {
      auto const width = lines.back() == ' ' ? kColumn - 2 : kColumn;
      lines += padded(digits(value, 3), width);
    }
  }
  return lines + "\n";
}

}  // namespace

Json report_of(TrialResult const& trial, std::int64_t query_rows) {
  auto const& load = trial.load;
  auto const& counts = load.counts;
  auto const& memory = trial.memory;
  auto const swaps = in_ms(trial.swaps);
  return {{"captured", trial.captured()},
          {"seconds", load.seconds},
          {"queries_per_s", load.queries_per_s()},
          {"rows_per_s", load.queries_per_s() * static_cast<double>(query_rows)},
          {"latency_ms", in_ms(load.latency)},
          {"queue_ms", in_ms(load.queued)},
          {"device_ms", in_ms(load.on_device)},
          {"asked_late_ms", in_ms(load.late)},
          {"in_flight", load.in_flight()},
          {"in_flight_on_device", load.on_device_together()},
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
            {"poller_sleeps", trial.pool.poller_sleeps}}}};
}

void add_comparisons(Json& report, ServeComparisons const& comparisons, std::int64_t query_rows) {
  auto const result = report.at("result");  // a copy: what is added moves the others
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
  if (comparisons.raw_loop_queries_per_s) {
    report["raw_loop"] = {{"queries_per_s", *comparisons.raw_loop_queries_per_s}};
    report["over_raw_loop"] = {
        {"throughput",
         ratio(result.at("queries_per_s"), report.at("raw_loop").at("queries_per_s"))}};
  }
}

std::string serve_summary(Json const& report) {
  auto const& result = report.at("result");
  auto const& memory = result.at("memory");
  auto lines = text(count_of(result.at("answered")),
                    " queries answered in ",
                    digits(result.at("seconds"), 2),
                    result.at("captured").get<bool>() ? " s, captured: " : " s, eager: ",
                    count_of(result.at("queries_per_s")),
                    " queries/s, ",
                    count_of(result.at("rows_per_s")),
                    " rows/s\n",
                    times_table(result),
                    "on average ",
                    digits(result.at("in_flight"), 1),
                    " queries in flight, ",
                    digits(result.at("in_flight_on_device"), 1),
                    " on the device; ",
                    count_of(result.at("refused")),
                    " refused, ",
                    count_of(result.at("expired")),
                    " expired, ",
                    count_of(result.at("failed")),
                    " failed; ",
                    count_of(result.at("launches")),
                    " launches, ",
                    count_of(result.at("swaps")),
                    " swaps\nmemory: weights ",
                    mebibytes(memory.at("weights_bytes")),
                    ", a replica ",
                    mebibytes(memory.at("replica_bytes")),
                    " in use, ",
                    mebibytes(memory.at("replica_reserved_bytes")),
                    " reserved, ",
                    mebibytes(memory.at("replica_device_bytes")),
                    " less free on the device, ",
                    mebibytes(memory.at("replica_pinned_bytes")),
                    " pinned; ",
                    mebibytes(memory.at("reserved_bytes")),
                    " reserved in all\n");
  if (result.at("asked_late_ms").at("max") != 0) {
    lines += text("asked later than they arrived, ms: p50 ",
                  digits(result.at("asked_late_ms").at("p50"), 3),
                  ", p99 ",
                  digits(result.at("asked_late_ms").at("p99"), 3),
                  " (counted in the latency)\n");
  }
  if (result.at("checked") != 0) {
    lines += text(count_of(result.at("checked")),
                  " answers compared with lone runs, ",
                  count_of(result.at("mismatches")),
                  " differ\n");
  }
  if (auto const found = report.find("baseline"); found != report.end()) {
    auto const& over = report.at("over_baseline");
    lines += text("eagerly on one stream: ",
                  count_of(found->at("queries_per_s")),
                  " queries/s, p50 ",
                  digits(found->at("latency_ms").at("p50"), 3),
                  " ms, p99 ",
                  digits(found->at("latency_ms").at("p99"), 3),
                  " ms; the pool has ",
                  digits(over.at("throughput"), 2),
                  " times the throughput, ",
                  digits(over.at("p50"), 2),
                  " times the p50, ",
                  digits(over.at("p99"), 2),
                  " times the p99\n");
  }
  if (auto const found = report.find("raw_loop"); found != report.end()) {
    lines += text("a raw loop of replays: ",
                  count_of(found->at("queries_per_s")),
                  " queries/s; the pool has ",
                  digits(report.at("over_raw_loop").at("throughput"), 2),
                  " times the throughput\n");
  }
  return lines;
}

std::string placement_text(ServeOptions const& options) {
  return text(options.replicas,
              options.replicas == 1 ? " replica" : " replicas",
              options.no_capture ? ", eager; " : ", captured; ",
              name_of(options.runtime),
              " runtime",
              options.runtime == RuntimeChoice::host ? " (no GPU is used)" : "");
}

void conclude(ServeOptions const& options, Json const& report) {
  if (!options.report.empty()) {
    write_report(options.report, report);
  }
  if (!options.quiet) {
    std::cout << serve_summary(report) << std::flush;
  }
  auto const& result = report.at("result");
  if (result.at("mismatches") != 0) {
    throw std::runtime_error(text(count_of(result.at("mismatches")),
                                  " of ",
                                  count_of(result.at("checked")),
                                  " answers differ from what the model says to the query alone"));
  }
}

}  // namespace msstream::support
