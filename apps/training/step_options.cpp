// SPDX-License-Identifier: Apache-2.0
#include "training/step_options.hpp"

#include "cli/outputs.hpp"
#include "cli/overlap_option.hpp"
#include "cli/precision_option.hpp"

#include <msstream/base/detail/env.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace msstream::training {

void StepOptions::silence() {
  quiet = true;
  dashboard = nullptr;
  is_traced_by_others = traces_step();
  for (auto* const path : {&report, &trace, &overlap}) {
    path->clear();
  }
}

StepSetting StepOptions::setting() const {
  return {.groups = stream_groups,
          .merge_streams = merge_streams,
          .launch_threads = launch_threads,
          .launch_thread_count = launch_thread_count,
          .captured = capture,
          .precision = tf32 ? MatmulPrecision::tf32 : MatmulPrecision::float32,
          .reduce_waits = !no_reduce_waits,
          .tables_together = !each_table,
          .table_rounding = table_rounding,
          .rounding_seed = seed,
          .copies = copies,
          .loss_scale = scaling,
          .two_stage = staleness};
}

std::optional<StreamAssignment> StepOptions::read_assignment() const {
  try {
    if (chooses_groups()) {
      return std::nullopt;
    }
    return assignment.empty() ? StreamAssignment::from_environment(stream_groups)
                              : StreamAssignment::from_file(assignment, stream_groups);
  } catch (std::invalid_argument const& error) {
    throw cli::UsageError(
        fmt::format("{}{}", assignment.empty() ? "" : "--assignment: ", error.what()));
  }
}

void add_options(cli::Options& options, StepOptions& chosen) {
  add_options(options, static_cast<cli::StreamOptions&>(chosen));
  options.add(
      "--assignment",
      chosen.assignment,
      "which group operations go to by their names; auto: trace a step, choose, and keep what "
      "is measured to be faster than the model's own groups and than one",
      "a path, or auto");
  options.add("--save-assignment",
              chosen.save_assignment,
              "what --assignment auto chose, to be read and changed",
              "a path");

  options.group("Steps");
  options.add<std::int64_t>(
      "--steps", chosen.steps, "stop after so many; 0: at the end of the data", {0, 1'000'000'000});
  options.add_flag(
      "--capture", chosen.capture, "capture the second step, and replay it from then on");
  cli::add_tf32_option(options, chosen.tf32);
  add_options(options, static_cast<UpdateOptions&>(chosen));
  options.add<std::uint64_t>("--seed", chosen.seed, "of weights, order and generated data");

  options.group("Files");
  options.add("--report", chosen.report, "losses, step times, waits and memory as JSON", "a path");
  add_options(options, static_cast<StepTraceOptions&>(chosen));
  options.add("--trace", chosen.trace, "one training step as trace JSON for Perfetto", "a path");
  cli::add_overlap_option(options, chosen.overlap, "three steps");
  add_options(options, static_cast<DashboardOption&>(chosen));
  options.add_flag("--quiet", chosen.quiet, "no progress");
  cli::know_library_variables(options);
}

void read_library_variables(StepOptions& chosen) {
  read_library_variables(static_cast<cli::StreamOptions&>(chosen));
  try {
    chosen.tf32 = cli::default_tf32();
    (void)env::flag("MSSTREAM_PROPAGATE_GROUPS", false);
  } catch (std::invalid_argument const& error) {
    throw cli::UsageError(error.what());
  }
}

void check(StepOptions const& chosen,
           std::vector<cli::InputOption> inputs,
           std::vector<cli::OutputOption> outputs) {
  check(static_cast<cli::StreamOptions const&>(chosen));
  (void)chosen.read_assignment();
  if (!chosen.save_assignment.empty() && !chosen.chooses_groups()) {
    throw cli::UsageError("--save-assignment goes with --assignment auto");
  }
  check_step_trace(chosen);
  cli::check_overlap_option(chosen.overlap);
  if (!chosen.overlap.empty() && !chosen.trace.empty()) {
    throw cli::UsageError(
        "--overlap does not go with --trace: both record the times of operations");
  }
  if (!chosen.chooses_groups() && !chosen.assignment.empty()) {
    inputs.push_back({"--assignment", chosen.assignment});
  }
  constexpr char const* variable = "MSSTREAM_STREAM_ASSIGNMENT";
  inputs.push_back({variable, std::string(env::value_of(variable))});
  outputs.insert(outputs.end(),
                 {{"--report", chosen.report},
                  {"--save-assignment", chosen.save_assignment},
                  {"--step-trace", chosen.step_trace},
                  {"--trace", chosen.trace},
                  {cli::kOverlap, chosen.overlap}});
  cli::check_outputs(outputs, inputs);
}

void check_with_ranks(StepOptions const& chosen, RankOptions const& ranks) {
  refuse_with_ranks(ranks,
                    {{chosen.chooses_groups(), "--assignment auto: tries groups on one rank"}});
  check_with_ranks(static_cast<StepTraceOptions const&>(chosen), ranks);
  if (ranks.parallel == Parallel::half_batches &&
      (chosen.chooses_groups() || chosen.read_assignment())) {
    throw cli::UsageError(
        "--assignment: does not go with --parallel half_batches, whose halves have groups of their "
        "own");
  }
}

nlohmann::ordered_json describe(StepOptions const& chosen) {
  auto described = describe(static_cast<cli::StreamOptions const&>(chosen));
  described.update({{"assignment", chosen.assignment},
                    {"steps", chosen.steps},
                    {"capture", chosen.capture},
                    {"tf32", chosen.tf32}});
  described.update(describe(static_cast<UpdateOptions const&>(chosen)));
  described["seed"] = chosen.seed;
  return described;
}

}  // namespace msstream::training
