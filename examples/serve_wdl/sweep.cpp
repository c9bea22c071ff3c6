// SPDX-License-Identifier: Apache-2.0
#include "sweep.hpp"

#include "cli/outputs.hpp"
#include "cli/report.hpp"
#include "load/serve_report.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <stdexcept>

namespace serve_wdl {

namespace cli = ms::cli;
namespace load = ms::load;
using Json = nlohmann::ordered_json;

namespace {

/// Formats a table of one figure: a row for each setting, a column for each number of replicas. The
/// points must be ordered by setting.
template <class Figure>
std::string table(Json const& points, std::string const& title, Figure const& figure) {
  std::string heads = fmt::format("{:20}", title);
  std::string lines;
  std::string setting;
  bool is_first_line = true;
  for (auto const& point : points) {
    if (auto const& its = point.at("setting").get_ref<std::string const&>(); its != setting) {
      is_first_line = setting.empty();
      setting = its;
      lines += fmt::format("\n{:20}", setting);
    }
    if (is_first_line) {
      heads += fmt::format("{:>10}", point.at("replicas").get<int>());
    }
    lines += fmt::format("{:>10}", figure(point));
  }
  return heads + lines + "\n";
}

}  // namespace

std::vector<std::pair<std::string, load::ServeSetting>> sweep_settings(
    load::ServeSetting const& chosen) {
  auto setting = chosen;
  setting.merge_streams = false;
  setting.pinned = ms::PinnedMode::shared;
  setting.launch_threads = ms::LaunchThreads::none;
  setting.launch_thread_count = 0;
  setting.no_capture = true;
  setting.branches = 1;
  setting.sm_partitions = 1;
  std::vector<std::pair<std::string, load::ServeSetting>> settings{{"eager", setting}};
  setting.merge_streams = true;
  settings.emplace_back("+ merged streams", setting);
  setting.pinned = ms::PinnedMode::per_group;
  settings.emplace_back("+ pinned per group", setting);
  setting.launch_threads = ms::LaunchThreads::per_group;
  settings.emplace_back("+ launch threads", setting);
  setting.no_capture = false;
  settings.emplace_back("+ capture", setting);
  constexpr int kUsualBranches = 3;
  setting.branches = chosen.branches > 1 ? chosen.branches : kUsualBranches;
  settings.emplace_back("+ branches", setting);
  setting.sm_partitions = 0;
  settings.emplace_back("+ SM partitions", setting);
  return settings;
}

Json report_of_sweep(std::vector<SweepPoint> const& points, std::int64_t query_rows) {
  auto report = Json::array();
  for (auto const& point : points) {
    Json entry = {
        {"setting", point.setting}, {"replicas", point.replicas}, {"clients", point.clients}};
    entry.update(load::report_of(point.trial, query_rows));
    report.push_back(std::move(entry));
  }
  return report;
}

std::string sweep_table(Json const& points) {
  return table(points,
               "queries/s, replicas:",
               [](Json const& point) {
                 return ms::report::grouped(std::llround(point.at("queries_per_s").get<double>()));
               }) +
         table(points, "p99, ms", [](Json const& point) {
           return ms::report::fixed(point.at("latency_ms").at("p99").get<double>(), 3);
         });
}

void conclude_sweep(WdlOptions const& options, Json const& report) {
  auto const& points = report.at("sweep");
  if (!options.report.empty()) {
    cli::attempt_output("--report", [&] { cli::write_report(options.report, report); });
  }
  cli::write_output("--svg", options.svg, sweep_svg(points));
  if (!options.quiet) {
    cli::print(sweep_table(points));
  }
  std::int64_t mismatches = 0;
  for (auto const& point : points) {
    mismatches += point.at("mismatches").get<std::int64_t>();
  }
  if (mismatches != 0) {
    throw std::runtime_error(
        fmt::format("{} answers differ from what the model says to the query alone", mismatches));
  }
}

}  // namespace serve_wdl
