// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/load_generator.hpp>
#include <msstream/support/model_swapper.hpp>
#include <msstream/support/serve_options.hpp>
#include <msstream/support/served_model.hpp>
#include <msstream/support/trial_result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace msstream::support {

/// Serves the workload from a device and a pool of its own, as `chosen` says, under a load: first
/// for `options.warmup` seconds, then as planned, which is measured.
template <Runtime R>
[[nodiscard]] TrialResult try_serving(Workload<R> const& workload,
                                      ServeSetting const& chosen,
                                      ServeOptions const& options,
                                      LoadPlan const& plan,
                                      ProgressStyle const& style,
                                      std::string const& title) {
  using Model = ServedModel<R>;
  Device<R> const device(device_options<R>(chosen));
  auto const setting = fitted(chosen, device);
  std::vector<std::shared_ptr<Model const>> models{workload.build(device, 0)};
  if (options.swap_ms > 0) {
    models.push_back(workload.build(device, 1));
  }
  auto const pinned_bytes = [&] { return device.state()->pinned.statistics().live_bytes; };
  auto const device_before = device.memory_statistics();
  auto const pinned_before = pinned_bytes();

  using Pool = serve::InferencePool<Model, R>;
  typename Pool::Clone clone;
  if (setting.weights == ServedWeights::copied) {
    clone = [&](Model const& model) { return workload.build(device, model.variant()); };
  }
  Pool pool(device,
            models.front(),
            setting.pool_options(workload.inputs, workload.outputs_per_row, workload.query_rows),
            clone);
  auto const replicas = static_cast<std::size_t>(setting.replicas);
  auto const device_after = device.memory_statistics();
  TrialResult result{
      .memory = {.weights = models.front()->weight_bytes(),
                 .replica = (device_after.live_bytes - device_before.live_bytes) / replicas,
                 .replica_reserved =
                     (device_after.reserved_bytes - device_before.reserved_bytes) / replicas,
                 .replica_pinned = (pinned_bytes() - pinned_before) / replicas},
      .captured = pool.counts().captured_steps > 0 && pool.counts().failed_captures == 0};
  {
    ModelSwapper swapper(pool, models, std::chrono::milliseconds(options.swap_ms));
    if (options.warmup > 0) {
      auto before = plan;
      before.iterations = 0;
      before.length = std::chrono::duration<double>(options.warmup);
      before.seed = plan.seed + 1;
      LiveLine line(style, title + ", warming up");
      static_cast<void>(LoadGenerator(pool, workload.queries, before).run(line));
    }
    auto const swaps_before = swapper.swaps();
    LiveLine line(style, title);
    result.load = LoadGenerator(pool, workload.queries, plan).run(line);
    result.swaps = swapper.swaps() - swaps_before;
    swapper.stop();
  }
  result.memory.reserved = device.memory_statistics().peak_reserved_bytes;
  return result;
}

}  // namespace msstream::support
