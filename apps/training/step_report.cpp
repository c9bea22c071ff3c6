// SPDX-License-Identifier: Apache-2.0
#include "training/step_report.hpp"

#include "cli/outputs.hpp"
#include "cli/report.hpp"
#include "training/percentile.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>
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
  return report::fixed(ms.get<double>(), 3);
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
  return report::grouped(number.get<std::int64_t>());
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
  if (measured.loss_scale) {
    report["loss_scale"] = *measured.loss_scale;
    report["skipped_steps"] = measured.skipped_steps;
  }
  if (measured.first_overflow) {
    report["first_overflow"] = *measured.first_overflow;
  }
  if (measured.captured && measured.waits_in_graph) {
    report["waits_in_graph"] = *measured.waits_in_graph;
  }
  if (auto const& tried = measured.tried) {
    report["tried_ms"] = {{"chosen", tried->chosen_ms},
                          {"one_group", tried->one_group_ms},
                          {"own", tried->own_ms},
                          {"fastest", name_of(tried->fastest())}};
  }
  if (auto const& traced = measured.traced) {
    report["traced_step"] = describe(*traced);
  }
  return report;
}

std::string summary_of(nlohmann::ordered_json const& report) {
  auto const& losses = report.at("losses");
  auto const& times = report.at("step_ms");
  auto const& waits = report.at("waits");
  std::string lines = fmt::format(
      "{} steps{}: median {} ms (5% {}, 95% {}); {} operations; of {} waits {} issued; peak memory "
      "{} MiB\n",
      losses.size(),
      report.at("captured").get<bool>() ? ", captured" : ", eager",
      in_ms(times.at("median")),
      in_ms(times.at("p5")),
      in_ms(times.at("p95")),
      count_of(report.at("operations")),
      count_of(waits.at("needed")),
      count_of(waits.at("issued")),
      report::grouped(report.at("peak_bytes").get<std::int64_t>() >> 20U));
  if (auto const found = report.find("loss_scale"); found != report.end()) {
    lines += fmt::format("loss scale {} at the end; {} steps skipped\n",
                         found->get<float>(),
                         count_of(report.at("skipped_steps")));
  }
  if (auto const found = report.find("first_overflow"); found != report.end()) {
    lines += overflow_line(*found);
  }
  if (auto const found = report.find("predicted_ms"); found != report.end()) {
    lines += fmt::format("groups by a trace: predicted {} ms, on one group {} ms\n",
                         in_ms(found->at("chosen")),
                         in_ms(found->at("one_group")));
  }
  if (auto const found = report.find("tried_ms"); found != report.end()) {
    lines += fmt::format("measured {} ms, on one group {}, on the model's own {}: trained on {}\n",
                         in_ms(found->at("chosen")),
                         in_ms(found->at("one_group")),
                         in_ms(found->at("own")),
                         found->at("fastest").get<std::string>());
  }
  if (auto const found = report.find("traced_step"); found != report.end()) {
    lines += traced_step_line(*found);
  }
  return lines;
}

std::string placement_text(StepOptions const& options) {
  return fmt::format("{}{}{} runtime{}",
                     options.stream_groups,
                     options.stream_groups == 1 ? " stream group; " : " stream groups; ",
                     name_of(options.runtime),
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
