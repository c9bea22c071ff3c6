// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "ple_branches.hpp"
#include "ple_grouped.hpp"
#include "ple_options.hpp"
#include "training/click_batch.hpp"
#include "training/epoch_plan.hpp"
#include "training/step_run.hpp"

#include <msstream/data/device_loader.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace train_ple {

inline PleShape shape_of(PleOptions const& options, ms::training::TrainingData const& data) {
  auto shape = options.shape;
  shape.table_rows = data.table_rows;
  shape.continuous = data.columns.continuous;
  shape.tasks = static_cast<int>(data.columns.tasks());
  shape.seed = options.seed;
  return shape;
}

/// Returns the plan of the batches, which all have one size, so that a captured step fits them all.
inline ms::training::EpochPlan plan_of(PleOptions const& options,
                                       ms::training::TrainingData const& data) {
  return {.rows = data.training_rows,
          .loader = {.batch_size = options.batch,
                     .epochs = options.epochs,
                     .shuffle_rows = ms::data::kWholeEpoch,
                     .seed = options.seed,
                     .last_batch = ms::data::LastBatch::dropped,
                     .threads = options.reader_threads,
                     .transforms = data.transforms}};
}

/// Returns a full batch on the device, of the first training rows.
template <ms::Runtime R>
DeviceBatch<R> first_batch(ms::Device<R> const& device,
                           std::int64_t rows,
                           ms::training::TrainingData const& data) {
  ms::data::Loader loader(data.training.reader(),
                          {.batch_size = rows, .threads = 1, .transforms = data.transforms});
  return ms::training::click_batch(data.columns, loader.next().value(), device);
}

/// Trains a PLE model in one of its forms, tests it after each epoch, and reports the results.
template <ms::Runtime R, class Model>
class PleTraining {
 public:
  PleTraining(PleOptions const& options, ms::training::TrainingData data)
      : options_(options),
        data_(std::move(data)),
        plan_(plan_of(options, data_)),
        run_(options, last_step(), Build{options, data_}),
        training_(run_.training()) {}

  nlohmann::ordered_json run() {
    Feed feed(training_.device(), training_.pool()[0], data_.training.take(), plan_.loader);
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
  using Feed = ms::data::DeviceLoader<R>;

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
  nlohmann::ordered_json train_epoch(Feed& feed) {
    auto result = run_.train_epoch(plan_, [&](DeviceBatch<R> const& inputs) {
      auto const batch = ms::training::click_batch(data_.columns, feed.next().value());
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
    auto const rows = data_.held_out.rows();
    auto const& tasks = data_.columns.labels;
    auto results = nlohmann::ordered_json::array();
    if (rows == 0) {
      return results;
    }
    typename ms::GradientTape<R>::Pause const no_gradients(training_.tape());
    Feed feed(training_.device(),
              training_.pool()[0],
              data_.held_out.reader(),
              {.batch_size = options_.batch,
               .last_batch = ms::data::LastBatch::padded,
               .threads = options_.reader_threads,
               .transforms = data_.transforms});
    std::vector<ms::metrics::Auc<R>> areas;
    std::vector<ms::metrics::LogLoss<R>> losses;
    typename ms::metrics::Auc<R>::Options const of_area{.capacity = rows};
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      areas.emplace_back(training_.device(), of_area);
      losses.emplace_back(training_.device());
    }
    while (auto const fed = feed.next()) {
      auto const batch = ms::training::click_batch(data_.columns, *fed);
      auto const of_tasks = training_.model().logits(training_.tape(), training_.pool(), batch);
      std::vector<ms::metrics::Update> updates;
      for (std::size_t task = 0; task < tasks.size(); ++task) {
        auto const row = static_cast<std::int64_t>(task);
        auto const labels = batch.labels.rows(row, row + 1).reshaped(of_tasks[task].shape());
        updates.push_back(ms::metrics::MetricSet(areas[task], losses[task])
                              .with({.scores = of_tasks[task].rows(0, fed->rows()),
                                     .labels = labels.rows(0, fed->rows())}));
      }
      ms::metrics::update(updates);
    }
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      auto const area = areas[task].value();
      results.push_back(
          {{"task", tasks[task]},
           {"test_auc", area ? nlohmann::ordered_json(*area) : nlohmann::ordered_json(nullptr)},
           {"test_logloss", losses[task].value().value()}});
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
  ms::training::TrainingData data_;
  ms::training::EpochPlan plan_;
  ms::training::StepRun<R, Build> run_;
  typename ms::training::StepRun<R, Build>::Training& training_;
};

template <ms::Runtime R>
nlohmann::ordered_json train_ple_on(PleOptions const& options, ms::training::TrainingData data) {
  return options.form == PleForm::grouped
             ? PleTraining<R, PleGrouped<R>>(options, std::move(data)).run()
             : PleTraining<R, PleBranches<R>>(options, std::move(data)).run();
}

}  // namespace train_ple
