// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "table_specs.hpp"
#include "trainer.hpp"
#include "training/trace_step.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace train_wdl {

/// Makes the model that the options describe, and a batch of zeros, for a step that is traced.
template <ms::Runtime R>
struct BuildToTrace {
  TrainOptions const& options;
  TrainingData const& data;
  ms::comm::World world;
  std::optional<ms::training::TableParts> const& parts;

  std::pair<WideDeep<R>, DeviceBatch<R>> operator()(ms::Device<R> const& device) const {
    auto const shape = shape_of(options, data);
    auto const fields = static_cast<std::int64_t>(shape.fields.size());
    auto const rows = options.batch;
    DeviceBatch<R> batch{ms::zeros<std::int64_t>(device, {fields, rows}),
                         ms::zeros<float>(device, {rows, shape.continuous}),
                         ms::zeros<float>(device, {rows, 1})};
    if (options.lookahead != ms::training::Lookahead::none) {
      batch.next_keys = ms::zeros<std::int64_t>(device, {fields, rows});
    }
    auto in_parts =
        ms::training::make_lookups<R>(device, parts, world, options, rows, options.seed);
    return {WideDeep<R>(device, shape, std::move(in_parts)), std::move(batch)};
  }
};

/// Traces a step first if the options ask for it. Then trains, and returns the report.
template <ms::Runtime R>
nlohmann::ordered_json trace_and_train(TrainOptions const& options,
                                       TrainingData& data,
                                       ms::comm::World const& world,
                                       std::optional<ms::training::TableParts> const& parts) {
  std::optional<ms::training::TracedStep> traced;
  if (options.records_step()) {
    traced = ms::training::trace_step<R>(
        options,
        options.setting(),
        {.kind = options.optimizer, .learning_rate = options.learning_rate},
        BuildToTrace<R>{options, data, world, parts});
  }
  auto report = Trainer<R>(options, data, world, parts).run();
  if (traced) {
    report["traced_step"] = describe(*traced);
  }
  return report;
}

}  // namespace train_wdl
