// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/query_cost.hpp"
#include "load/raw_loop.hpp"
#include "load/serve_report.hpp"
#include "load/serve_trial.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/report/progress_line.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>

namespace msstream::load {

/// Serves a workload as the options say, then runs the comparisons that they choose, one after the
/// other. Returns the report.
template <Runtime R>
[[nodiscard]] nlohmann::ordered_json serve_workload(Workload<R> const& workload,
                                                    ServeOptions const& options,
                                                    LoadPlan const& plan) {
  auto const style = report::ProgressLine::Style::of_stderr(options.quiet);
  nlohmann::ordered_json report;
  auto const pool = try_serving(workload, options, options, plan, style, "pool", options.overlap);
  report["result"] = report_of(pool, workload.query_rows);
  ServeComparisons others;
  if (options.baseline_too) {
    others.baseline =
        try_serving(workload, options.baseline(), options, plan, style, "one by one, one stream");
  }
  if constexpr (CapturingRuntime<R>) {
    if (options.raw_loop) {
      constexpr double kLeast = 0.05;
      auto const seconds = plan.iterations > 0 ? pool.load.seconds : plan.length.count();
      RawLoop<R> loop(workload, options, options.raw_threads);
      others.raw_loop = {.queries_per_s = loop.run(options.warmup, std::max(seconds, kLeast)),
                         .threads = loop.threads()};
    }
  }
  add_comparisons(report, others, workload.query_rows);
  return report;
}

/// Measures the cost of a query that runs alone, before any load test and on a device of its own.
/// With --check, also computes the expected answers.
template <Runtime R>
void run_alone(Workload<R>& workload, ServeOptions const& options) {
  Device<R> const device(device_options<R>(options));
  auto const buckets = options.run_in(workload.query_rows);
  workload.cost = query_cost(device, workload, *workload.build(device, 0), buckets.front());
  if (options.check) {
    expect_lone_answers(device, workload, options.swap_ms > 0 ? 2 : 1, buckets);
  }
}

}  // namespace msstream::load
