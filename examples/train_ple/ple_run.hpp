// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "ple_branches.hpp"
#include "ple_grouped.hpp"
#include "ple_options.hpp"
#include "training/device_feed.hpp"
#include "training/metrics.hpp"
#include "training/step_run.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace train_ple {

inline PleShape shape_of(PleOptions const& options, ms::training::TrainingData const& data) {
  auto shape = options.shape;
  auto const& schema = data.dataset.schema();
  shape.table_rows = data.table_rows;
  shape.continuous = static_cast<std::int64_t>(schema.continuous.size());
  shape.tasks = static_cast<int>(schema.labels.size());
  shape.seed = options.seed;
  return shape;
}

/// Returns the plan of the batches, which all have one size, so that a captured step fits them all.
inline ms::data::BatchPlan plan_of(PleOptions const& options,
                                   ms::training::TrainingData const& data) {
  return {.rows = data.split.training,
          .batch_rows = options.batch,
          .epochs = options.epochs,
          .shuffle = true,
          .seed = options.seed,
          .whole_batches = true};
}

/// Returns a full batch on the device, of the first training rows.
template <ms::Runtime R>
DeviceBatch<R> first_batch(ms::Device<R> const& device,
                           std::int64_t rows,
                           ms::training::TrainingData const& data) {
  ms::data::BatchLayout const layout(data.dataset.schema(), static_cast<std::size_t>(rows));
  ms::data::HostStaging staging(layout, 1);
  auto& staged = staging.batches().front();
  data.dataset.gather(
      std::span(data.split.training).first(static_cast<std::size_t>(rows)), layout, staged);
  auto const put = [&](auto const* values, std::size_t count, ms::Shape const& shape) {
    return ms::to_device(device, std::vector(values, values + count), shape);
  };
  auto const extent = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  return {
      put(staged.keys, layout.key_count(), {extent(layout.fields), rows, extent(layout.hotness)}),
      put(staged.continuous, layout.continuous_count(), {rows, extent(layout.continuous)}),
      put(staged.labels, layout.label_count(), {extent(layout.labels), rows, 1})};
}

/// Trains a PLE model in one of its forms, tests it after each epoch, and reports the results.
template <ms::Runtime R, class Model>
class PleTraining {
 public:
  PleTraining(PleOptions const& options, ms::training::TrainingData const& data)
      : options_(options),
        data_(data),
        plan_(plan_of(options, data)),
        run_(options, last_step(), Build{options, data}),
        training_(run_.training()) {}

  nlohmann::ordered_json run() {
    auto feed = feed_of(plan_);
    auto epochs = nlohmann::ordered_json::array();
    while (!run_.is_over()) {
      epochs.push_back(train_epoch(feed));
    }
    auto report = run_.report();
    report["options"] = describe(options_);
    report["epochs"] = std::move(epochs);
    return report;
  }

 private:
  using Feed = ms::training::DeviceFeed<R>;

  struct Build {
    PleOptions const& options;
    ms::training::TrainingData const& data;

    std::pair<Model, DeviceBatch<R>> operator()(ms::Device<R> const& device) const {
      return {Model(device, shape_of(options, data)), first_batch<R>(device, options.batch, data)};
    }
  };

  [[nodiscard]] std::int64_t last_step() const {
    auto const all = plan_.batch_count();
    return options_.steps != 0 ? std::min(options_.steps, all) : all;
  }
  [[nodiscard]] Feed feed_of(ms::data::BatchPlan plan) {
    return Feed(training_.device(),
                data_.dataset,
                std::move(plan),
                0,
                options_.reader_threads,
                training_.pool()[0]);
  }
  static DeviceBatch<R> batch_of(ms::training::DeviceRows<R> const& fed) {
    auto const& labels = fed.labels.shape();
    return {fed.keys, fed.continuous, fed.labels.reshaped({labels[0], labels[1], 1})};
  }

  nlohmann::ordered_json train_epoch(Feed& feed) {
    auto result = run_.train_epoch(plan_, [&](DeviceBatch<R> const& inputs) {
      auto const batch = batch_of(feed.next().value());
      ms::NameScope const named("feed");
      ms::copy(inputs.keys, batch.keys);
      ms::copy(inputs.continuous, batch.continuous);
      ms::copy(inputs.labels, batch.labels);
    });
    result["tasks"] = test();
    print(result);
    return result;
  }

  /// Returns the AUC and the log loss of each task on the held-out rows.
  nlohmann::ordered_json test() {
    auto const& rows = data_.split.held_out;
    auto const& tasks = data_.dataset.schema().labels;
    auto results = nlohmann::ordered_json::array();
    if (rows.empty()) {
      return results;
    }
    typename ms::GradientTape<R>::Pause const no_gradients(training_.tape());
    auto feed = feed_of(
        {.rows = rows, .batch_rows = options_.batch, .epochs = 1, .shuffle = false, .seed = 0});
    std::vector<std::vector<float>> logits(tasks.size());
    while (auto const fed = feed.next()) {
      auto const of_tasks =
          training_.model().logits(training_.tape(), training_.pool(), batch_of(*fed));
      for (std::size_t task = 0; task < tasks.size(); ++task) {
        auto const answers = ms::to_host(of_tasks[task]);
        logits[task].insert(logits[task].end(), answers.begin(), answers.begin() + fed->rows);
      }
    }
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      std::vector<float> labels;
      labels.reserve(rows.size());
      for (auto const row : rows) {
        labels.push_back(data_.dataset.labels(row)[task]);
      }
      auto const auc = ms::training::roc_auc(logits[task], labels);
      results.push_back(
          {{"task", tasks[task]},
           {"test_auc", auc ? nlohmann::ordered_json(*auc) : nlohmann::ordered_json(nullptr)},
           {"test_logloss", ms::training::log_loss(logits[task], labels)}});
    }
    return results;
  }

  void print(nlohmann::ordered_json const& result) const {
    if (options_.quiet) {
      return;
    }
    auto const four_digits = [](nlohmann::ordered_json const& value) {
      return ms::report::fixed(value.get<double>(), 4);
    };
    std::string line = fmt::format("epoch {}: loss {}",
                                   result["epoch"].template get<std::int64_t>(),
                                   four_digits(result["loss"]));
    for (auto const& task : result["tasks"]) {
      line += fmt::format(", {} AUC ", task["task"].template get<std::string>());
      line += task["test_auc"].is_null() ? "?" : four_digits(task["test_auc"]);
    }
    auto const rate = static_cast<std::int64_t>(result["rows_per_s"].template get<double>());
    ms::cli::print(fmt::format("{}, {} rows/s\n", line, ms::report::grouped(rate)));
  }

  PleOptions const& options_;
  ms::training::TrainingData const& data_;
  ms::data::BatchPlan plan_;
  ms::training::StepRun<R, Build> run_;
  typename ms::training::StepRun<R, Build>::Training& training_;
};

template <ms::Runtime R>
nlohmann::ordered_json train_ple_on(PleOptions const& options,
                                    ms::training::TrainingData const& data) {
  return options.form == PleForm::grouped ? PleTraining<R, PleGrouped<R>>(options, data).run()
                                          : PleTraining<R, PleBranches<R>>(options, data).run();
}

}  // namespace train_ple
