// SPDX-License-Identifier: Apache-2.0
#include "training/step_report.hpp"

#include "cli/outputs.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "training/metrics.hpp"

#include <msstream/base/text.hpp>

#include <nlohmann/json.hpp>

namespace msstream::training {

namespace {

nlohmann::ordered_json times_of(std::vector<double> const& step_ms) {
  nlohmann::ordered_json times = {
      {"count", step_ms.size()}, {"median", nullptr}, {"p5", nullptr}, {"p95", nullptr}};
  if (!step_ms.empty()) {
    times["median"] = percentile(step_ms, 50);
    times["p5"] = percentile(step_ms, 5);
    times["p95"] = percentile(step_ms, 95);
  }
  return times;
}

/// Formats a time, or "?" if none was measured.
std::string in_ms(nlohmann::ordered_json const& ms) {
  if (ms.is_null()) {
    return "?";
  }
  return cli::fixed(ms.get<double>(), 3);
}

char const* name_of(TriedGroups::Fastest fastest) {
  switch (fastest) {
    case TriedGroups::Fastest::chosen:
      return "those of the trace";
    case TriedGroups::Fastest::one_group:
      return "one group";
    case TriedGroups::Fastest::own:
      break;
  }
  return "the model's own";
}

std::string count_of(nlohmann::ordered_json const& number) {
  return cli::grouped(number.get<std::int64_t>());
}

}  // namespace

nlohmann::ordered_json report_of(StepOptions const& options, StepMeasurements const& measured) {
  nlohmann::ordered_json report = {{"options", describe(options)},
                                   {"captured", measured.captured},
                                   {"losses", measured.losses},
                                   {"step_ms", times_of(measured.step_ms)},
                                   {"operations", measured.operations},
                                   {"waits",
                                    {{"needed", measured.waits.needed},
                                     {"issued", measured.waits.issued},
                                     {"elided", measured.waits.elided}}},
                                   {"peak_bytes", measured.memory.peak_live_bytes},
                                   {"reserved_bytes", measured.memory.peak_reserved_bytes}};
  if (auto const& predicted = measured.predicted) {
    report["predicted_ms"] = {{"chosen", predicted->chosen_ms},
                              {"one_group", predicted->one_group_ms},
                              {"recorded", predicted->recorded_ms}};
  }
  if (measured.captured) {
    report["waits_in_graph"] = measured.waits_in_graph;
  }
  if (auto const& tried = measured.tried) {
    report["tried_ms"] = {{"chosen", tried->chosen_ms},
                          {"one_group", tried->one_group_ms},
                          {"own", tried->own_ms},
                          {"fastest", name_of(tried->fastest())}};
  }
  if (auto const& traced = measured.traced) {
    report["traced_step"] = {{"operations", traced->operations},
                             {"busy_ms", traced->busy_ms},
                             {"critical_path_ms", traced->critical_path_ms},
                             {"waits",
                              {{"hazards", traced->waits.hazards},
                               {"necessary", traced->waits.necessary},
                               {"issued", traced->waits.issued}}}};
  }
  return report;
}

std::string summary_of(nlohmann::ordered_json const& report) {
  auto const& losses = report.at("losses");
  auto const& times = report.at("step_ms");
  auto const& waits = report.at("waits");
  std::string lines = text(losses.size(),
                           " steps",
                           report.at("captured").get<bool>() ? ", captured" : ", eager",
                           ": median ",
                           in_ms(times.at("median")),
                           " ms (5% ",
                           in_ms(times.at("p5")),
                           ", 95% ",
                           in_ms(times.at("p95")),
                           "); ",
                           count_of(report.at("operations")),
                           " operations; of ",
                           count_of(waits.at("needed")),
                           " waits ",
                           count_of(waits.at("issued")),
                           " issued; peak memory ",
                           cli::grouped(report.at("peak_bytes").get<std::int64_t>() >> 20U),
                           " MiB\n");
  if (auto const found = report.find("predicted_ms"); found != report.end()) {
    lines += text("groups by a trace: predicted ",
                  in_ms(found->at("chosen")),
                  " ms, on one group ",
                  in_ms(found->at("one_group")),
                  " ms\n");
  }
  if (auto const found = report.find("tried_ms"); found != report.end()) {
    lines += text("measured ",
                  in_ms(found->at("chosen")),
                  " ms, on one group ",
                  in_ms(found->at("one_group")),
                  ", on the model's own ",
                  in_ms(found->at("own")),
                  ": trained on ",
                  found->at("fastest").get<std::string>(),
                  "\n");
  }
  if (auto const found = report.find("traced_step"); found != report.end()) {
    auto const& needs = found->at("waits");
    lines += text("a step of ",
                  count_of(found->at("operations")),
                  " operations: ",
                  count_of(needs.at("hazards")),
                  " hazards between streams, ",
                  count_of(needs.at("necessary")),
                  " waits necessary, ",
                  count_of(needs.at("issued")),
                  " issued; critical path ",
                  in_ms(found->at("critical_path_ms")),
                  " of ",
                  in_ms(found->at("busy_ms")),
                  " ms\n");
  }
  return lines;
}

std::string placement_text(StepOptions const& options) {
  return text(options.stream_groups,
              options.stream_groups == 1 ? " stream group; " : " stream groups; ",
              name_of(options.runtime),
              " runtime",
              options.runtime == cli::RuntimeChoice::host ? " (no GPU is used)" : "");
}

void conclude(StepOptions const& options, nlohmann::ordered_json const& report) {
  if (!options.report.empty()) {
    cli::attempt_output("--report", [&] { cli::write_report(options.report, report); });
  }
  if (!options.quiet) {
    cli::print(summary_of(report));
  }
}

}  // namespace msstream::training
