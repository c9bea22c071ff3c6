// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "dlrm_checkpoint.hpp"
#include "dlrm_model.hpp"
#include "dlrm_options.hpp"
#include "dlrm_tables.hpp"
#include "training/area_metric.hpp"
#include "training/end_of_rows.hpp"
#include "training/epoch_plan.hpp"
#include "training/ranks.hpp"
#include "training/staged_training.hpp"
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
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace train_dlrm {

/// Returns the columns of a batch, with the rows of DeviceBatch::shape_rows(). They are views,
/// except for the lists of multi-hot data, which are joined to one tensor.
template <ms::Runtime R>
DeviceBatch<R> columns_of(ms::datasets::ClickColumns const& columns,
                          bool is_multi_hot,
                          ms::data::DeviceBatch<R> const& batch) {
  auto const rows = batch.shape_rows();
  auto const numbers = batch.floats(ms::datasets::kContinuous).reshaped({rows, kNumbers});
  auto const labels = batch.floats(columns.labels.front()).reshaped({rows, 1});
  if (!is_multi_hot) {
    auto const ids = batch.ints(columns.categorical.front(), columns.categorical.back());
    return {numbers, {ids.reshaped({ids.count()})}, labels};
  }
  std::vector<ms::ops::Bags<R>> lists;
  for (auto const& field : columns.categorical) {
    lists.emplace_back(batch.ints(field), batch.offsets(field));
  }
  auto const joined = ms::ops::joined_bags(lists);
  return {
      numbers,
      {joined.ids.template as<std::int64_t>(), joined.offsets.value().template as<std::int64_t>()},
      labels};
}

/// Copies the ids of a batch to those of as many rows, in which there is room for them.
template <ms::Runtime R>
void copy_ids(FieldIds<R> const& to, FieldIds<R> const& from) {
  if (auto const count = from.ids.count(); count > 0) {
    ms::copy(to.ids.rows(0, count), from.ids);
  }
  if (from.offsets) {
    ms::copy(*to.offsets, *from.offsets);
  }
}

/// Copies a batch to inputs of as many rows, in which there is room for its ids. Copies the ids of
/// the next batch too if `to` has such.
template <ms::Runtime R>
void copy_batch(DeviceBatch<R> const& to, DeviceBatch<R> const& from) {
  ms::copy(to.numbers, from.numbers);
  ms::copy(to.labels, from.labels);
  copy_ids(to.fields, from.fields);
  if (to.next_fields) {
    copy_ids(*to.next_fields, from.next_fields.value());
  }
}

/// Trains a DLRM, tests it after each epoch, and reports the results. One rank of a training on
/// several, which share the data if they are threads.
template <ms::Runtime R, ms::RealElement T>
class DlrmTraining {
 public:
  DlrmTraining(DlrmOptions const& options,
               ms::training::TrainingData& data,
               ms::comm::World const& world,
               std::optional<ms::training::TableParts> const& parts)
      : options_(options),
        data_(data),
        plan_(ms::training::plan_of(options, data, ms::data::LastBatch::dropped)),
        run_(options,
             last_step(),
             Build{options, ids_per_row(options, data), world, parts},
             "rows",
             {.world = world,
              .parallel = options.parallel,
              .reproducible = options.reproducible,
              .has_collectives = parts.has_value()}),
        training_(run_.training()),
        ranks_(training_.ranks()) {}

  nlohmann::ordered_json run() {
    if (!options_.resume.empty()) {
      resume();
    }
    auto const first_step = plan_.loader.start ? plan_.loader.start->batches : 0;
    batches_read_ = first_step;
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
      report["first_step"] = first_step;
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
    if (last_step() == plan_.batch_count()) {
      ms::training::require_end_of_rows(feeds, data_);
    }
    if (!options_.save.empty()) {
      ms::cli::attempt_output(
          "--save", [&] { save_checkpoint(options_, data_, training_, feeds.front().position()); });
    }
    return described(run_.report());
  }

 private:
  using Model = DlrmModel<R, T>;
  using Feed = ms::data::DeviceLoader<R>;
  using Inputs = ms::training::BatchesOfParts<DeviceBatch<R>>;

  struct Build {
    DlrmOptions const& options;
    std::int64_t ids_per_row;  ///< at most
    ms::comm::World world;
    std::optional<ms::training::TableParts> const& parts;

    [[nodiscard]] Inputs inputs(ms::Device<R> const& device) const {
      Inputs inputs;
      auto const rows = options.batch / options.parts();
      for (int part = 0; part < options.parts() / options.ranks; ++part) {
        auto& batch =
            inputs.batches.emplace_back(DeviceBatch<R>{ms::zeros<float>(device, {rows, kNumbers}),
                                                       room_for_ids(device, rows),
                                                       ms::zeros<float>(device, {rows, 1})});
        if (options.lookahead != ms::training::Lookahead::none) {
          batch.next_fields = room_for_ids(device, rows);
        }
      }
      return inputs;
    }
    std::pair<Model, Inputs> operator()(ms::Device<R> const& device) const {
      auto in_parts =
          ms::training::make_lookups<R>(device, parts, world, options, options.batch, options.seed);
      return {Model(device, options.shape, std::move(in_parts)), inputs(device)};
    }
    [[nodiscard]] FieldIds<R> room_for_ids(ms::Device<R> const& device, std::int64_t rows) const {
      FieldIds<R> fields{ms::zeros<std::int64_t>(device, {rows * ids_per_row})};
      if (options.shape.is_multi_hot) {
        auto const bags = static_cast<std::int64_t>(kFields) * rows;
        fields.offsets = ms::zeros<std::int64_t>(device, {bags + 1});
      }
      return fields;
    }
  };

  /// Returns the most ids that a row has in all fields together.
  [[nodiscard]] static std::int64_t ids_per_row(DlrmOptions const& options,
                                                ms::training::TrainingData const& data) {
    auto const most = most_ids_of_fields(options.shape, data);
    return std::max<std::int64_t>(std::accumulate(most.begin(), most.end(), std::int64_t{0}), 1);
  }
  [[nodiscard]] std::int64_t last_step() const {
    auto const all = plan_.batch_count();
    return options_.steps != 0 ? std::min(options_.steps, all) : all;
  }

  /// Loads the checkpoint to resume from. Unless tables are in parts, the ranks do it in turn,
  /// since those that are threads share the transforms that it loads.
  void resume() {
    auto const load = [&] {
      plan_.loader.start = load_checkpoint(options_, data_, training_, ranks_.world());
    };
    if (training_.model().in_parts()) {
      load();
    } else {
      ranks_.in_turn(load);
    }
    auto const step = plan_.loader.start->batches;
    ms::training::require_step_within(options_.resume, step, last_step());
    run_.start_at(step);
  }

  /// Returns the next batch of a part. If lookups look ahead, it has the ids of the batch after it,
  /// or after the last one its own. Reads no batch beyond the last step, so that a checkpoint has
  /// the position behind it.
  [[nodiscard]] DeviceBatch<R> next_batch(Feed& feed) {
    auto const read = [&] { return columns_for_model(feed.next().value()); };
    if (options_.lookahead == ms::training::Lookahead::none) {
      return read();
    }
    if (!after_) {
      after_ = read();
      ++batches_read_;
    }
    auto batch = *std::exchange(after_, std::nullopt);
    if (batches_read_ < last_step()) {
      after_ = read();
      ++batches_read_;
    }
    batch.next_fields = after_ ? after_->fields : batch.fields;
    return batch;
  }

  nlohmann::ordered_json train_epoch(std::deque<Feed>& feeds) {
    auto result = run_.train_epoch(plan_, [&](Inputs const& inputs) {
      for (std::size_t part = 0; part < feeds.size(); ++part) {
        ms::NameScope const named("feed");
        copy_batch(inputs.batches[part], next_batch(feeds[part]));
      }
    });
    result.update(test());
    if (!result["test_auc"].is_null()) {
      run_.feed().note_metric("test AUC", result["test_auc"].template get<double>());
    }
    print(result);
    return result;
  }

  [[nodiscard]] DeviceBatch<R> columns_for_model(ms::data::DeviceBatch<R> const& batch) const {
    return columns_of(data_.columns, options_.shape.is_multi_hot, batch);
  }

  /// Returns the AUC and the log loss on the held-out rows.
  nlohmann::ordered_json test() {
    auto const rows = data_.held_out.rows();
    if (rows == 0) {
      return {{"test_auc", nullptr}, {"test_log_loss", nullptr}};
    }
    // A lookup of tables in parts exchanges room for as many samples as a batch can have.
    auto const batch_rows =
        training_.model().in_parts() ? options_.batch / ranks_.world().size() : options_.batch;
    typename ms::GradientTape<R>::Pause const no_gradients(training_.tape());
    Feed feed(training_.device(),
              training_.pool()[0],
              data_.held_out.reader(),
              ranks_.loader_to_evaluate({.batch_size = batch_rows,
                                         .threads = options_.reader_threads,
                                         .transforms = data_.transforms}));
    auto const area = ms::training::area_metric(
        training_.device(), ranks_.rows_to_evaluate(rows, batch_rows), !ranks_.is_alone());
    ms::metrics::LogLoss<R> const log_loss(training_.device());
    while (auto const fed = feed.next()) {
      auto const batch = columns_for_model(*fed);
      auto const logits = training_.model().logits(training_.tape(), training_.pool(), batch);
      auto const weights = ranks_.is_alone() ? std::nullopt : std::optional(fed->mask());
      auto const examples = ranks_.of_all_ranks({logits, batch.labels, weights});
      area.update(examples);
      log_loss.update(examples);
    }
    auto const number = [&](auto const& metric) {
      auto const value = ms::training::value_unless_overflow(options_.scaling.has_value(),
                                                             [&] { return metric.value(); });
      return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
    };
    return {{"test_auc", number(area)}, {"test_log_loss", number(log_loss)}};
  }

  void print(nlohmann::ordered_json const& result) const {
    if (options_.quiet) {
      return;
    }
    auto const value = [&](char const* key) {
      return result[key].is_null() ? std::string("none")
                                   : ms::report::fixed(result[key].template get<double>(), 4);
    };
    ms::cli::print(fmt::format("epoch {}: loss {}, test AUC {}, test log loss {}, {} rows/s\n",
                               result["epoch"].template get<std::int64_t>(),
                               value("loss"),
                               value("test_auc"),
                               value("test_log_loss"),
                               ms::report::grouped(static_cast<std::int64_t>(
                                   result["rows_per_s"].template get<double>()))));
  }

  DlrmOptions const& options_;
  ms::training::TrainingData& data_;
  ms::training::EpochPlan plan_;
  ms::training::StepRun<R, Build, ms::training::StagedTraining<R, Build>> run_;
  ms::training::StagedTraining<R, Build>& training_;
  ms::training::Ranks<R> const& ranks_;
  // Lookups look ahead with one part a rank.
  std::optional<DeviceBatch<R>> after_;  ///< the batch after the next, if it has been read
  std::int64_t batches_read_ = 0;        ///< of the run, the steps before --resume included
};

template <ms::Runtime R>
nlohmann::ordered_json train_dlrm_on(DlrmOptions const& options,
                                     ms::training::TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts) {
  return ms::with_precision(options.shape.precision, [&](auto type) {
    using T = typename decltype(type)::type;
    return DlrmTraining<R, T>(options, data, world, parts).run();
  });
}

}  // namespace train_dlrm
