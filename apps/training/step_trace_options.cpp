// SPDX-License-Identifier: Apache-2.0
#include "training/step_trace_options.hpp"

#include "cli/outputs.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdint>

namespace msstream::training {

void add_options(cli::Options& options, StepTraceOptions& chosen) {
  options.add_flag(
      "--waits", chosen.waits, "trace a step, and report how many waits it takes and needs");
  options.add("--step-trace",
              chosen.step_trace,
              "the graph of one step, as its name's end says",
              "a path that ends with .json, .dot or .svg");
}

void check_step_trace(StepTraceOptions const& chosen) {
  auto const end = std::filesystem::path(chosen.step_trace).extension();
  if (!chosen.step_trace.empty() && end != ".json" && end != ".dot" && end != ".svg") {
    throw cli::UsageError(fmt::format(
        "--step-trace {}: expected a path that ends with .json, .dot or .svg", chosen.step_trace));
  }
}

void check_with_ranks(StepTraceOptions const& chosen, RankOptions const& ranks) {
  refuse_with_ranks(ranks,
                    {{chosen.waits, "--waits: traces a step of one rank"},
                     {!chosen.step_trace.empty(), "--step-trace: traces a step of one rank"}});
  if (ranks.parts() > 1 && (chosen.waits || !chosen.step_trace.empty())) {
    throw cli::UsageError(
        fmt::format("{}: traces a step of a batch in one part; this run has {} parts",
                    chosen.waits ? "--waits" : "--step-trace",
                    ranks.parts()));
  }
}

void write_step_trace(std::filesystem::path const& path,
                      StepTrace const& trace,
                      StepTrace::CriticalPath const& critical) {
  auto const end = path.extension();
  cli::write_output("--step-trace",
                    path,
                    end == ".dot"   ? trace.dot(critical)
                    : end == ".svg" ? trace.svg(critical)
                                    : trace.json());
}

nlohmann::ordered_json describe(TracedStep const& traced) {
  return {{"operations", traced.operations},
          {"busy_ms", traced.busy_ms},
          {"critical_path_ms", traced.critical_path_ms},
          {"waits",
           {{"hazards", traced.waits.hazards},
            {"necessary", traced.waits.necessary},
            {"issued", traced.waits.issued}}}};
}

std::string traced_step_line(nlohmann::ordered_json const& described) {
  auto const count = [](nlohmann::ordered_json const& number) {
    return report::grouped(number.get<std::int64_t>());
  };
  auto const in_ms = [&](char const* key) {
    return report::fixed(described.at(key).get<double>(), 3);
  };
  auto const& needs = described.at("waits");
  return fmt::format(
      "a step of {} operations: {} hazards between streams, {} waits necessary, {} issued; "
      "critical path {} of {} ms\n",
      count(described.at("operations")),
      count(needs.at("hazards")),
      count(needs.at("necessary")),
      count(needs.at("issued")),
      in_ms("critical_path_ms"),
      in_ms("busy_ms"));
}

}  // namespace msstream::training
