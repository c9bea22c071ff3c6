// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"
#include "load/serve_report.hpp"

#include <msstream/base/text.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <string_view>

namespace msstream::load {

namespace {

using Json = nlohmann::ordered_json;

std::string padded(std::string const& word, std::size_t width) {
  return std::string(width > word.size() ? width - word.size() : 0, ' ') + word;
}
std::string rounded_count(Json const& number) {
  return cli::grouped(std::llround(number.get<double>()));
}
std::string digits(Json const& number, int after_point) {
  return number.is_null() ? "?" : cli::fixed(number.get<double>(), after_point);
}
std::string mebibytes(Json const& bytes) {
  constexpr double kMebibyte = 1 << 20;
  return text(cli::fixed(bytes.get<double>() / kMebibyte, 1), " MiB");
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

std::string pool_text(Json const& result) {
  auto const& memory = result.at("memory");
  return text(rounded_count(result.at("answered")),
              " queries answered in ",
              digits(result.at("seconds"), 2),
              result.at("captured").get<bool>() ? " s, captured: " : " s, eager: ",
              rounded_count(result.at("queries_per_s")),
              " queries/s, ",
              rounded_count(result.at("rows_per_s")),
              " rows/s\n",
              times_table(result),
              "on average ",
              digits(result.at("in_flight"), 1),
              " queries in flight, ",
              digits(result.at("in_flight_on_device"), 1),
              " on the device, ",
              digits(result.at("kernels_in_flight"), 2),
              " kernels and copies of ",
              rounded_count(result.at("operations_a_query")),
              " a query\n",
              rounded_count(result.at("asked")),
              " asked, ",
              rounded_count(result.at("refused")),
              " refused, ",
              rounded_count(result.at("expired")),
              " expired, ",
              rounded_count(result.at("failed")),
              " failed; ",
              rounded_count(result.at("launches")),
              " launches, ",
              rounded_count(result.at("swaps")),
              " swaps\nmemory: weights ",
              mebibytes(memory.at("weights_bytes")),
              ", a replica ",
              mebibytes(memory.at("replica_bytes")),
              " in use, ",
              mebibytes(memory.at("replica_reserved_bytes")),
              " reserved, ",
              mebibytes(memory.at("replica_device_bytes")),
              " of the device's, ",
              mebibytes(memory.at("replica_pinned_bytes")),
              " pinned; ",
              mebibytes(memory.at("reserved_bytes")),
              " reserved in all\n");
}

std::string samples_text(Json const& result) {
  auto const& sampled = result.at("sampled");
  auto const from_to = [&](char const* of, auto const& shown) {
    auto const found = sampled.find(of);
    return found == sampled.end() ? std::string("?")
                                  : text(shown(found->at("min")), " to ", shown(found->at("max")));
  };
  return text(result.at("samples").size(),
              " samples: ",
              from_to("queries_per_s", rounded_count),
              " queries/s, p99 ",
              from_to("p99_ms", [](Json const& its) { return digits(its, 3); }),
              " ms, ",
              from_to("waiting", rounded_count),
              " waiting; reserved ",
              from_to("reserved_bytes", mebibytes),
              ", of the device's ",
              from_to("device_bytes", mebibytes),
              ", resident on the host ",
              from_to("resident_bytes", mebibytes),
              "\n");
}

std::string measured_before_text(Json const& result) {
  std::string lines;
  if (auto const found = result.find("peak_queries_per_s"); found != result.end()) {
    lines += text("the peak, of a closed load: ",
                  rounded_count(*found),
                  " queries/s; these arrived at ",
                  rounded_count(result.at("rate")),
                  "\n");
  }
  if (auto const found = result.find("lone_ms"); found != result.end()) {
    lines += text("a lone query: p50 ",
                  digits(found->at("p50"), 3),
                  " ms, p99 ",
                  digits(found->at("p99"), 3),
                  " ms; the load's p99 is ",
                  digits(result.at("over_lone").at("p99"), 2),
                  " times that p50\n");
  }
  return lines;
}

}  // namespace

std::string serve_summary(Json const& report) {
  auto const& result = report.at("result");
  auto lines = pool_text(result) + samples_text(result) + measured_before_text(result);
  if (result.at("asked_late_ms").at("max") != 0) {
    lines += text("asked later than they arrived, ms: p50 ",
                  digits(result.at("asked_late_ms").at("p50"), 3),
                  ", p99 ",
                  digits(result.at("asked_late_ms").at("p99"), 3),
                  " (counted in the latency)\n");
  }
  if (result.at("checked") != 0) {
    lines += text(rounded_count(result.at("checked")),
                  " answers compared with lone runs, ",
                  rounded_count(result.at("mismatches")),
                  " differ\n");
  }
  if (auto const found = report.find("baseline"); found != report.end()) {
    auto const& over = report.at("over_baseline");
    lines += text("eagerly on one stream: ",
                  rounded_count(found->at("queries_per_s")),
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
    lines += text("a raw loop of ",
                  rounded_count(found->at("threads")),
                  " threads: ",
                  rounded_count(found->at("queries_per_s")),
                  " queries/s; the pool has ",
                  digits(report.at("over_raw_loop").at("throughput"), 2),
                  " times the throughput\n");
  }
  return lines;
}

}  // namespace msstream::load
