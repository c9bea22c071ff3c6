// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/served_model.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/record_step.hpp>

#include <cstddef>
#include <memory>

namespace msstream::load {

/// Returns the cost of one query on the device, if its operations (the copies and the model's own)
/// are issued one by one and each runs alone. Traces a few runs of the first query, in buffers for
/// `bucket` rows. Nothing else may use the device meanwhile.
template <Runtime R>
[[nodiscard]] QueryCost query_cost(Device<R> const& device,
                                   Workload<R> const& workload,
                                   ServedModel<R> const& model,
                                   std::int64_t bucket) {
  constexpr std::size_t kRuns = 5;
  auto const layout = std::make_shared<serve::InputLayout const>(workload.inputs);
  serve::Staging<R> const staging(device, layout, bucket, workload.outputs_per_row);
  layout->pack_alone(workload.queries.front().query, staging.values(), bucket);
  auto const run = [&] {
    bool has_issued = false;
    static_cast<void>(staging.issue(
        bucket, [&](auto const& inputs) { return model(inputs); }, has_issued));
  };
  run();  // warms up: creates what is created on first use
  auto const trace = record_step(device, [&] {
    for (std::size_t i = 0; i < kRuns; ++i) {
      run();
    }
  });
  return {.operations = trace.operations().size() / kRuns,
          .device_ns = trace.busy_ns() / static_cast<double>(kRuns)};
}

}  // namespace msstream::load
