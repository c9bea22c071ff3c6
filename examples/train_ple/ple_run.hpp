// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "ple_branches.hpp"
#include "ple_grouped.hpp"
#include "ple_options.hpp"
#include "training/click_batch.hpp"
#include "training/epoch_plan.hpp"
#include "training/ranks.hpp"
#include "training/step_run.hpp"
#include "training/table_parts.hpp"
#include "training/train_or_report.hpp"

#include <msstream/data/device_loader.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/report/text.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace train_ple {

/// Returns a full batch on the device, of the first training rows.
template <ms::Runtime R>
DeviceBatch<R> first_batch(ms::Device<R> const& device,
                           std::int64_t rows,
                           ms::training::TrainingData const& data) {
  ms::data::Loader loader(data.training.reader(),
                          {.batch_size = rows, .threads = 1, .transforms = data.transforms});
  return ms::training::click_batch(data.columns, loader.next().value(), device);
}

/// Trains a PLE model in one of its forms, tests it after each epoch, and reports the results. One
/// rank of a training on several, which share the data if they are threads.
template <ms::Runtime R, class Model>
class PleTraining {
 public:
  PleTraining(PleOptions const& options,
              ms::training::TrainingData& data,
              ms::comm::World const& world,
              std::optional<ms::training::TableParts> const& parts)
      : options_(options),
        data_(data),
        plan_(ms::training::plan_of(options, data_, ms::data::LastBatch::dropped)),
        run_(options,
             last_step(),
             Build{options, data_, world, parts},
             "rows",
             {.world = world,
              .parallel = options.parallel,
              .reproducible = options.reproducible,
              .has_collectives = parts.has_value()}),
        training_(run_.training()),
        ranks_(training_.ranks()) {}

  nlohmann::ordered_json run() {
    std::deque<Feed> feeds;  // of this rank's parts of a batch
    for (auto const& loader : ranks_.loaders_of_parts(plan_.loader)) {
      feeds.emplace_back(training_.device(),
                         training_.pool()[0],
                         ranks_.is_alone() ? data_.training.take() : data_.training.reader(),
                         loader);
    }
    auto epochs = nlohmann::ordered_json::array();
    auto const described = [&](nlohmann::ordered_json report) {
      report["options"] = describe(options_);
      report["epochs"] = epochs;
      return report;
    };
    ms::training::train_or_report(
        options_.report,
        [&] {
          while (!run_.is_over()) {
            epochs.push_back(train_epoch(feeds));
          }
        },
        [&] { return described(run_.own_report()); });
    return described(run_.report());
  }

 private:
  using Feed = ms::data::DeviceLoader<R>;
  using Inputs = ms::training::BatchesOfParts<DeviceBatch<R>>;

  struct Build {
    PleOptions const& options;
    ms::training::TrainingData const& data;
    ms::comm::World world;
    std::optional<ms::training::TableParts> const& parts;

    std::pair<Model, Inputs> operator()(ms::Device<R> const& device) const {
      Inputs inputs;
      for (int part = 0; part < options.parts() / options.ranks; ++part) {
        auto& batch = inputs.batches.emplace_back(
            first_batch<R>(device, options.batch / options.parts(), data));
        if (options.lookahead != ms::training::Lookahead::none) {
          batch.next_keys = ms::Tensor<std::int64_t, R>(device, batch.keys.shape());
          ms::copy(*batch.next_keys, batch.keys);
        }
      }
      auto in_parts =
          ms::training::make_lookups<R>(device, parts, world, options, options.batch, options.seed);
      return {Model(device, shape_of(options, data), std::move(in_parts)), std::move(inputs)};
    }
  };

  [[nodiscard]] std::int64_t last_step() const {
    auto const all = plan_.batch_count();
    return options_.steps != 0 ? std::min(options_.steps, all) : all;
  }
  /// Returns the next batch of a part. If lookups look ahead, it has the keys of the batch after
  /// it, or after the last one its own.
  [[nodiscard]] DeviceBatch<R> next_batch(Feed& feed) {
    auto const read = [&]() -> std::optional<DeviceBatch<R>> {
      auto const fed = feed.next();
      return fed ? std::optional(ms::training::click_batch(data_.columns, *fed)) : std::nullopt;
    };
    auto batch = after_ ? *std::exchange(after_, std::nullopt) : read().value();
    if (options_.lookahead != ms::training::Lookahead::none) {
      after_ = read();
      batch.next_keys = after_ ? after_->keys : batch.keys;
    }
    return batch;
  }
  nlohmann::ordered_json train_epoch(std::deque<Feed>& feeds) {
    auto result = run_.train_epoch(plan_, [&](Inputs const& inputs) {
      for (std::size_t part = 0; part < feeds.size(); ++part) {
        auto const batch = next_batch(feeds[part]);
        ms::NameScope const named("feed");
        ms::training::copy(inputs.batches[part], batch);
      }
    });
    result["tasks"] = test();
    for (auto const& task : result["tasks"]) {
      if (!task["test_auc"].is_null()) {
        run_.feed().note_metric(
            fmt::format("test AUC of {}", task["task"].template get<std::string>()),
            task["test_auc"].template get<double>());
      }
    }
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
    // A lookup of tables in parts exchanges room for as many samples as a batch can have.
    auto const batch_rows =
        training_.model().in_parts() ? options_.batch / ranks_.world().size() : options_.batch;
    typename ms::GradientTape<R>::Pause const no_gradients(training_.tape());
    Feed feed(training_.device(),
              training_.pool()[0],
              data_.held_out.reader(),
              ranks_.loader_to_evaluate({.batch_size = batch_rows,
                                         .last_batch = ms::data::LastBatch::padded,
                                         .threads = options_.reader_threads,
                                         .transforms = data_.transforms}));
    std::vector<ms::metrics::Auc<R>> areas;
    std::vector<ms::metrics::LogLoss<R>> losses;
    typename ms::metrics::Auc<R>::Options const of_area{
        .capacity = ranks_.rows_to_evaluate(rows, batch_rows), .weighted = !ranks_.is_alone()};
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      areas.emplace_back(training_.device(), of_area);
      losses.emplace_back(training_.device());
    }
    while (auto const fed = feed.next()) {
      auto const batch = ms::training::click_batch(data_.columns, *fed);
      auto const of_tasks = training_.model().logits(training_.tape(), training_.pool(), batch);
      auto const count = ranks_.is_alone() ? fed->rows() : fed->shape_rows();
      auto const weights = ranks_.is_alone() ? std::nullopt : std::optional(fed->mask());
      std::vector<ms::metrics::Update> updates;
      for (std::size_t task = 0; task < tasks.size(); ++task) {
        auto const row = static_cast<std::int64_t>(task);
        auto const labels = batch.labels.rows(row, row + 1).reshaped(of_tasks[task].shape());
        updates.push_back(ms::metrics::MetricSet(areas[task], losses[task])
                              .with(ranks_.of_all_ranks({.scores = of_tasks[task].rows(0, count),
                                                         .labels = labels.rows(0, count),
                                                         .weights = weights})));
      }
      ms::metrics::update(updates);
    }
    auto const number = [&](auto const& metric) {
      auto const value = ms::training::value_unless_overflow(options_.scaling.has_value(),
                                                             [&] { return metric.value(); });
      return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
    };
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      results.push_back({{"task", tasks[task]},
                         {"test_auc", number(areas[task])},
                         {"test_logloss", number(losses[task])}});
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
  ms::training::TrainingData& data_;
  ms::training::EpochPlan plan_;
  ms::training::StepRun<R, Build> run_;
  typename ms::training::StepRun<R, Build>::Training& training_;
  ms::training::Ranks<R> const& ranks_;
  /// The batch after the next, if it has been read. Lookups look ahead with one part a rank.
  std::optional<DeviceBatch<R>> after_;
};

template <ms::Runtime R>
nlohmann::ordered_json train_ple_on(PleOptions const& options,
                                    ms::training::TrainingData& data,
                                    ms::comm::World const& world,
                                    std::optional<ms::training::TableParts> const& parts) {
  return options.form == PleForm::grouped
             ? PleTraining<R, PleGrouped<R>>(options, data, world, parts).run()
             : PleTraining<R, PleBranches<R>>(options, data, world, parts).run();
}

}  // namespace train_ple
