// SPDX-License-Identifier: Apache-2.0
#include "load/serve_report.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace msstream::load {

namespace {

using Json = nlohmann::ordered_json;

std::string rounded_count(Json const& number) {
  return report::grouped(std::llround(number.get<double>()));
}
std::string digits(Json const& number, int after_point) {
  return number.is_null() ? "?" : report::fixed(number.get<double>(), after_point);
}
std::string mebibytes(Json const& bytes) {
  constexpr double kMebibyte = 1 << 20;
  return fmt::format("{} MiB", report::fixed(bytes.get<double>() / kMebibyte, 1));
}

std::string times_table(Json const& result) {
  std::string lines =
      fmt::format("{:>12}{:>11}{:>11}{:>11}{:>11}{:>11}", "ms", "mean", "p50", "p95", "p99", "max");
  for (auto const& [title, key] : {std::pair{"latency", "latency_ms"},
                                   {"in the queue", "queue_ms"},
                                   {"on the device", "device_ms"}}) {
    lines += fmt::format("\n{:12}", title);
    for (auto const& value : result.at(key)) {
      lines += fmt::format("{:>11}", digits(value, 3));
    }
  }
  return lines + "\n";
}

std::string pool_text(Json const& result) {
  auto const& memory = result.at("memory");
  return fmt::format(
      "{} queries answered in {}{}{} queries/s, {} rows/s\n{}on average {} queries in flight, {} "
      "on the device, {} kernels and copies of {} a query\n{} asked, {} refused, {} expired, {} "
      "failed; {} launches, {} swaps\nmemory: weights {}, a replica {} in use, {} reserved, {} of "
      "the device's, {} pinned; {} reserved in all\n",
      rounded_count(result.at("answered")),
      digits(result.at("seconds"), 2),
      result.at("captured").get<bool>() ? " s, captured: " : " s, eager: ",
      rounded_count(result.at("queries_per_s")),
      rounded_count(result.at("rows_per_s")),
      times_table(result),
      digits(result.at("in_flight"), 1),
      digits(result.at("in_flight_on_device"), 1),
      digits(result.at("kernels_in_flight"), 2),
      rounded_count(result.at("operations_a_query")),
      rounded_count(result.at("asked")),
      rounded_count(result.at("refused")),
      rounded_count(result.at("expired")),
      rounded_count(result.at("failed")),
      rounded_count(result.at("launches")),
      rounded_count(result.at("swaps")),
      mebibytes(memory.at("weights_bytes")),
      mebibytes(memory.at("replica_bytes")),
      mebibytes(memory.at("replica_reserved_bytes")),
      mebibytes(memory.at("replica_device_bytes")),
      mebibytes(memory.at("replica_pinned_bytes")),
      mebibytes(memory.at("reserved_bytes")));
}

std::string samples_text(Json const& result) {
  auto const& sampled = result.at("sampled");
  auto const from_to = [&](char const* of, auto const& shown) {
    auto const found = sampled.find(of);
    return found == sampled.end()
               ? std::string("?")
               : fmt::format("{} to {}", shown(found->at("min")), shown(found->at("max")));
  };
  return fmt::format(
      "{} samples: {} queries/s, p99 {} ms, {} waiting; reserved {}, of the device's {}, resident "
      "on the host {}\n",
      result.at("samples").size(),
      from_to("queries_per_s", rounded_count),
      from_to("p99_ms", [](Json const& its) { return digits(its, 3); }),
      from_to("waiting", rounded_count),
      from_to("reserved_bytes", mebibytes),
      from_to("device_bytes", mebibytes),
      from_to("resident_bytes", mebibytes));
}

std::string measured_before_text(Json const& result) {
  std::string lines;
  if (auto const found = result.find("peak_queries_per_s"); found != result.end()) {
    lines += fmt::format("the peak, of a closed load: {} queries/s; these arrived at {}\n",
                         rounded_count(*found),
                         rounded_count(result.at("rate")));
  }
  if (auto const found = result.find("lone_ms"); found != result.end()) {
    lines +=
        fmt::format("a lone query: p50 {} ms, p99 {} ms; the load's p99 is {} times that p50\n",
                    digits(found->at("p50"), 3),
                    digits(found->at("p99"), 3),
                    digits(result.at("over_lone").at("p99"), 2));
  }
  return lines;
}

}  // namespace

std::string serve_summary(Json const& report) {
  auto const& result = report.at("result");
  auto lines = pool_text(result) + samples_text(result) + measured_before_text(result);
  if (result.at("asked_late_ms").at("max") != 0) {
    lines +=
        fmt::format("asked later than they arrived, ms: p50 {}, p99 {} (counted in the latency)\n",
                    digits(result.at("asked_late_ms").at("p50"), 3),
                    digits(result.at("asked_late_ms").at("p99"), 3));
  }
  if (result.at("checked") != 0) {
    lines += fmt::format("{} answers compared with lone runs, {} differ\n",
                         rounded_count(result.at("checked")),
                         rounded_count(result.at("mismatches")));
  }
  if (auto const found = report.find("baseline"); found != report.end()) {
    auto const& over = report.at("over_baseline");
    lines += fmt::format(
        "eagerly on one stream: {} queries/s, p50 {} ms, p99 {} ms; the pool has {} times the "
        "throughput, {} times the p50, {} times the p99\n",
        rounded_count(found->at("queries_per_s")),
        digits(found->at("latency_ms").at("p50"), 3),
        digits(found->at("latency_ms").at("p99"), 3),
        digits(over.at("throughput"), 2),
        digits(over.at("p50"), 2),
        digits(over.at("p99"), 2));
  }
  if (auto const found = report.find("raw_loop"); found != report.end()) {
    lines += fmt::format(
        "a raw loop of {} threads: {} queries/s; the pool has {} times the throughput\n",
        rounded_count(found->at("threads")),
        rounded_count(found->at("queries_per_s")),
        digits(report.at("over_raw_loop").at("throughput"), 2));
  }
  return lines;
}

}  // namespace msstream::load
