// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "cli/overlap_option.hpp"
#include "load/load_generator.hpp"
#include "load/model_swapper.hpp"
#include "load/serve_options.hpp"
#include "load/served_model.hpp"
#include "load/trial_result.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/overlap/report.hpp>
#include <msstream/report/progress_line.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msstream::load {

/// Runs a load test of the workload on a device and a pool of its own, which are set up as `chosen`
/// says. The load first runs for `options.warmup` seconds, then as planned; only the latter is
/// measured. Weights are swapped in both parts, but not while the peak or lone queries are
/// measured. If `overlap` is a path, a short load follows, and a report is written there that says
/// why its streams did not overlap.
template <Runtime R>
[[nodiscard]] TrialResult try_serving(Workload<R> const& workload,
                                      ServeSetting const& chosen,
                                      ServeOptions const& options,
                                      LoadPlan const& plan,
                                      report::ProgressLine::Style const& style,
                                      std::string const& title,
                                      std::string const& overlap = {}) {
  using Model = ServedModel<R>;
  Device<R> const device(device_options<R>(chosen));
  auto const setting = fitted(chosen, device);
  std::vector<std::shared_ptr<Model const>> models{workload.build(device, 0)};
  if (options.swap_ms > 0) {
    models.push_back(workload.build(device, 1));
  }
  auto const before_pool = memory_taken(device);

  using Pool = serve::InferencePool<Model, R>;
  typename Pool::Clone clone;
  if (setting.weights == ServedWeights::copied) {
    clone = [&](Model const& model) { return workload.build(device, model.variant()); };
  }
  Pool pool(device,
            models.front(),
            setting.pool_options(workload.inputs, workload.outputs_per_row, workload.query_rows),
            clone);
  TrialResult result{
      .memory = {.weights = static_cast<std::int64_t>(models.front()->weight_bytes()),
                 .replica = (memory_taken(device) - before_pool) / setting.replicas},
      .cost = workload.cost};
  auto const under = [&](LoadPlan const& load, std::string const& called, LookAtMemory memory) {
    LiveLine line(style, called);
    return LoadGenerator(pool, workload.queries, load, std::move(memory)).run(line);
  };
  std::chrono::milliseconds const swap_period(options.swap_ms);
  if (options.warmup > 0) {
    ModelSwapper swapper(pool, models, swap_period);
    auto const warm_up = plan.of_warm_up(std::chrono::duration<double>(options.warmup));
    static_cast<void>(under(warm_up, title + ", warming up", {}));
    swapper.stop();
  }
  auto measured = plan;
  if (plan.load_factor > 0) {
    result.peak_queries_per_s = under(plan.of_peak(), title + ", its peak", {}).queries_per_s();
    measured.rate = plan.load_factor * *result.peak_queries_per_s;
  }
  if (plan.lone_too) {
    result.lone = under(plan.of_lone(), title + ", lone queries", {}).latency;
  }
  result.rate = measured.rate;
  ModelSwapper swapper(pool, models, swap_period);
  result.load = under(measured, title, [&] { return memory_taken(device); });
  result.swaps = swapper.stop();
  result.pool = pool.counts();
  result.memory.reserved =
      static_cast<std::int64_t>(device.memory_statistics().peak_reserved_bytes);
  if (!overlap.empty()) {
    auto const reported = measured.of_overlap();
    auto const why = overlap_report(
        device,
        [&] { static_cast<void>(under(reported, title + ", for the report on overlap", {})); },
        {.warm_up = 0, .steps = 1});
    cli::attempt_output(cli::kOverlap, [&] { why.write(overlap); });
  }
  return result;
}

}  // namespace msstream::load
