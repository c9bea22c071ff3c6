// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/summary.hpp"

#include "overlap/show/report_json.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <istream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

namespace msstream::overlap {
namespace {

TimeClass class_of(std::string const& id) {
  for (auto const kind :
       {TimeClass::overlapped, TimeClass::alone, TimeClass::lost, TimeClass::idle}) {
    if (id == id_of(kind)) {
      return kind;
    }
  }
  throw std::runtime_error(fmt::format("unknown class of time '{}'", id));
}

std::optional<Cause> cause_in(nlohmann::json const& value) {
  if (value.is_null()) {
    return std::nullopt;
  }
  auto const id = value.get<std::string>();
  auto const cause = cause_of(id);
  if (!cause) {
    throw std::runtime_error(fmt::format("unknown cause '{}'", id));
  }
  return cause;
}

/// Returns a whole number of a report: at least `least`, and no time of centuries. The library for
/// JSON would convert any other number.
template <class Number>
Number number_in(nlohmann::json const& value, Number least = 0) {
  constexpr auto kMost =
      std::min(std::uint64_t{std::numeric_limits<Number>::max()}, std::uint64_t{1} << 60U);
  bool const is_whole =
      value.is_number_unsigned() ? value.get<std::uint64_t>() <= kMost : value.is_number_integer();
  if (!is_whole || value.get<std::int64_t>() < static_cast<std::int64_t>(least)) {
    throw std::runtime_error(
        fmt::format("expected a whole number from {} to {}, found {}", least, kMost, value.dump()));
  }
  return value.get<Number>();
}

WorkDone work_in(nlohmann::json const& entry) {
  WorkDone work;
  for (auto const& kernel : entry.at("kernels")) {
    work.kernels[kernel.at("name").get<std::string>()] +=
        number_in<std::int64_t>(kernel.at("launches"));
  }
  work.graphs = number_in<std::int64_t>(entry.at("graphs"));
  for (auto const& copy : entry.at("copies")) {
    auto const& bytes = copy.at("bytes");
    work.copied[copy.at("direction").get<std::string>()] =
        bytes.is_null() ? kUnknown : number_in<std::int64_t>(bytes);
  }
  for (auto const& range : entry.at("ranges")) {
    work.ranges[range.at("name").get<std::string>()] = {number_in<std::uint64_t>(range.at("count")),
                                                        number_in<Ns>(range.at("time_ns"))};
  }
  return work;
}

Summary summary_in(nlohmann::json const& report) {
  Summary summary;
  Recording titled;
  titled.origin = report.at("origin").get<std::string>();
  titled.source = report.at("source").get<std::string>();
  titled.program = report.at("program").get<std::string>();
  titled.rank = report.at("rank").is_null() ? kUnknown : number_in<int>(report.at("rank"));
  titled.ranks = report.at("ranks").is_null() ? kUnknown : number_in<int>(report.at("ranks"));
  summary.title = title_of(titled);
  summary.rank = titled.rank;
  summary.verdict = report.at("verdict").get<std::string>();
  summary.window = number_in<Ns>(report.at("window").at("length_ns"));
  for (auto const& entry : report.at("devices")) {
    auto& device = summary.devices.emplace_back();
    device.number = number_in<int>(entry.at("device"), kUnknown);
    device.name = entry.at("name").get<std::string>();
    device.busy = number_in<Ns>(entry.at("busy_ns"));
    for (auto const& time : entry.at("times")) {
      device.times.push_back({class_of(time.at("class").get<std::string>()),
                              cause_in(time.at("cause")),
                              number_in<Ns>(time.at("time_ns"))});
    }
  }
  for (auto const& entry : report.at("findings")) {
    summary.findings.push_back({cause_in(entry.at("cause")).value_or(Cause::unknown),
                                number_in<int>(entry.at("device"), kUnknown),
                                number_in<Ns>(entry.at("lost_ns")),
                                number_in<std::uint64_t>(entry.at("occurrences")),
                                entry.at("summary").get<std::string>()});
  }
  if (report.contains("work_done")) {
    summary.work = work_in(report.at("work_done"));
  }
  return summary;
}

/// Finds the schema of a report, and gives up at the first member that reports do not have.
class SchemaFinder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::string schema;

  bool key(string_t& name) override {
    is_schema_ = depth_ == 1 && name == "schema";
    return depth_ > 1 || is_schema_ || name == "version" || name == "reports";
  }
  bool string(string_t& text) override {
    if (is_schema_) {
      schema = text;
    }
    return !is_schema_ && depth_ > 0;
  }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ > 0; }
  bool start_array(std::size_t) override { return depth_++ > 0; }
  bool end_array() override { return --depth_ > 0; }
  bool null() override { return depth_ > 0; }
  bool boolean(bool) override { return depth_ > 0; }
  bool number_integer(number_integer_t) override { return depth_ > 0; }
  bool number_unsigned(number_unsigned_t) override { return depth_ > 0; }
  bool number_float(number_float_t, string_t const&) override { return depth_ > 0; }
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t, std::string const&, nlohmann::json::exception const&) override {
    return false;
  }

 private:
  int depth_ = 0;
  bool is_schema_ = false;
};

/// Returns the message of an error, without the number that the library for JSON puts before it.
std::string_view message_of(nlohmann::json::exception const& error) {
  std::string_view text = error.what();
  auto const end = text.find("] ");
  return text.starts_with("[json.exception.") && end != std::string_view::npos
             ? text.substr(end + 2)
             : text;
}

}  // namespace

Summary summary_of(Explained const& explained) {
  auto const& [recording, report] = explained;
  Summary summary;
  summary.title = title_of(recording);
  summary.verdict = report.verdict;
  summary.rank = recording.rank;
  summary.window = report.window.length();
  for (auto const& entry : report.devices) {
    auto const& described = recording.devices.at(entry.device);
    auto& device = summary.devices.emplace_back();
    device.number = described.number;
    device.name = described.name;
    device.busy = entry.busy;
    for (auto const& time : entry.times) {
      device.times.push_back({time.kind, time.cause, time.time});
    }
  }
  for (auto const& finding : report.findings) {
    summary.findings.push_back({finding.cause,
                                recording.devices.at(finding.device).number,
                                finding.lost,
                                finding.occurrences,
                                finding.summary});
  }
  summary.work = work_of(explained);
  return summary;
}

bool is_report_json(std::istream& stream) {
  SchemaFinder finder;
  nlohmann::json::sax_parse(stream, &finder, nlohmann::json::input_format_t::json, false);
  return finder.schema == kReportSchema;
}

std::vector<Summary> read_summaries(std::string_view json, std::string const& origin) {
  try {
    auto const parsed = nlohmann::json::parse(json);
    if (auto const schema = parsed.at("schema").get<std::string>(); schema != kReportSchema) {
      throw std::runtime_error(fmt::format("has the schema '{}', not '{}'", schema, kReportSchema));
    }
    if (auto const version = parsed.at("version").get<int>(); version != kReportVersion) {
      throw std::runtime_error(fmt::format(
          "has version {} of the schema; this program reads version {}", version, kReportVersion));
    }
    std::vector<Summary> summaries;
    for (auto const& report : parsed.at("reports")) {
      summaries.push_back(summary_in(report));
    }
    if (summaries.empty()) {
      throw std::runtime_error("has no reports");
    }
    return summaries;
  } catch (nlohmann::json::exception const& error) {
    throw std::runtime_error(
        fmt::format("{}: is no report that follows its schema: {}", origin, message_of(error)));
  } catch (std::exception const& error) {
    throw std::runtime_error(fmt::format("{}: {}", origin, error.what()));
  }
}

}  // namespace msstream::overlap
