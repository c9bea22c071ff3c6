// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint.hpp"
#include "cli/outputs.hpp"
#include "cli/overlap_option.hpp"
#include "table_specs.hpp"
#include "train_options.hpp"
#include "training/area_metric.hpp"
#include "training/click_batch.hpp"
#include "training/dashboard_feed.hpp"
#include "training/end_of_rows.hpp"
#include "training/epoch_plan.hpp"
#include "training/loss_watch.hpp"
#include "training/ranks.hpp"
#include "training/same_run.hpp"
#include "training/step_timeline.hpp"
#include "training/table_parts.hpp"
#include "training/train_or_report.hpp"
#include "wide_deep.hpp"

#include <msstream/data/device_loader.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/overlap/report.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/report/text.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/non_finite_locator.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace train_wdl {

/// Trains a Wide & Deep model, tests it after each epoch, and reports the results. One rank of a
/// training on several, which share the data if they are threads.
template <ms::Runtime R>
class Trainer {
 public:
  Trainer(TrainOptions const& options,
          TrainingData& data,
          ms::comm::World const& world,
          std::optional<ms::training::TableParts> const& parts,
          typename R::Options const& runtime = {})
      : options_(options),
        data_(data),
        device_(ms::training::device_of<R>(world,
                                           {.runtime = runtime,
                                            .reduce_waits = !options.no_reduce_waits,
                                            .matmul_precision = options.setting().precision})),
        pool_(device_, pool_options(options)),
        trunk_(pool_[0]),
        tape_(device_),
        model_(device_,
               shape_of(options, data_),
               ms::training::make_lookups<R>(
                   device_, parts, world, options, options.batch, options.seed)),
        ranks_(device_,
               model_.parameters(),
               {world, options.parallel, options.reproducible, parts.has_value()}),
        loss_scale_(options.setting().loss_scale
                        ? std::optional<ms::LossScale<R>>(
                              std::in_place, device_, *options.setting().loss_scale)
                        : std::nullopt),
        optimizer_(device_,
                   {.kind = options.optimizer, .learning_rate = options.learning_rate},
                   {.tables_together = !options.each_table, .loss_scale = loss_scale_}),
        feed_(options.board()),
        watch_(loss_scale_.has_value(), options.learning_rate),
        progress_style_(ms::report::ProgressLine::Style::of_stderr(options.quiet)) {
    if (ranks_.has_halves()) {
      second_pool_.emplace(device_, pool_options(options));
    }
    if (options.find_overflow) {
      locator_.emplace(tape_, model_.parameters());
    }
    optimizer_.add(model_.parameters());
    if (model_.in_parts()) {
      model_.in_parts()->tables().add_to(optimizer_);
    }
    plan_ = ms::training::plan_of(options, data_, ms::data::LastBatch::partial);
  }

  nlohmann::ordered_json run() {
    if (!options_.resume.empty()) {
      plan_.loader.start = resume();
      step_ = plan_.loader.start->batches;
      ms::training::require_step_within(options_.resume, step_, last_step());
      if (loss_scale_) {
        skipped_before_ = optimizer_.status().skipped;
      }
    }
    first_step_ = step_;
    feed_.note_steps_before(first_step_);
    traced_step_ = std::min(first_step_ + kStepsBeforeTrace, last_step() - 1);
    reported_step_ =
        std::clamp(last_step() - kReportedSteps - 1, first_step_, first_step_ + kStepsBeforeTrace);
    std::deque<Feed> feeds;  ///< of this rank's parts of a batch
    for (auto const& loader : ranks_.loaders_of_parts(plan_.loader)) {
      feeds.emplace_back(device_,
                         pool_[0],
                         ranks_.is_alone() ? data_.training.take() : data_.training.reader(),
                         loader);
    }
    auto epochs = nlohmann::ordered_json::array();
    auto const described = [&] {
      auto report = own_report();
      report["epochs"] = epochs;
      return report;
    };
    ms::training::train_or_report(
        options_.report,
        [&] {
          while (step_ < last_step()) {
            epochs.push_back(train_epoch(feeds));
          }
        },
        described);
    if (last_step() == plan_.batch_count()) {
      ms::training::require_end_of_rows(feeds, data_);
    }
    if (!options_.save.empty()) {
      ms::cli::attempt_output("--save", [&] {
        save_checkpoint(options_, data_, model_, optimizer_, feeds.front().position());
      });
    }
    auto report = described();
    if (locator_) {
      report["first_overflow"] = ms::training::first_overflow_of_ranks(
          ranks_.texts_of_all(report["first_overflow"].dump()));
    }
    if (loss_scale_ && !options_.quiet) {
      std::cerr << ms::training::skipped_warning(
          options_,
          report["skipped_steps"].template get<std::int64_t>() - skipped_before_,
          static_cast<std::int64_t>(losses_.size()));
    }
    return report;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Feed = ms::data::DeviceLoader<R>;
  using ClickBatch = ms::training::ClickBatch<R>;

  /// The number of steps that the host may be ahead of the last loss that it has read.
  static constexpr std::size_t kStepsAhead = 2;

  /// The parts of a batch that this rank trains on.
  struct OwnRows {
    std::vector<std::optional<ClickBatch>> parts;  ///< null: the part has no rows
    std::vector<std::int64_t> rows = {};           ///< of each part
    std::int64_t all_rows = 0;                     ///< of all ranks
  };

  /// Returns the report of this rank, without its epochs.
  [[nodiscard]] nlohmann::ordered_json own_report() const {
    auto const waits = device_.wait_counts();
    auto const memory = device_.memory_statistics();
    nlohmann::ordered_json report = {
        {"options", describe(options_)},
        {"first_step", first_step_},
        {"losses", losses_},
        {"epochs", nullptr},
        {"operations", device_.operation_count()},
        {"waits", {{"needed", waits.needed}, {"issued", waits.issued}, {"elided", waits.elided}}},
        {"peak_bytes", memory.peak_live_bytes},
        {"reserved_bytes", memory.peak_reserved_bytes}};
    if (loss_scale_) {
      report["loss_scale"] = loss_scale_->value();
      report["skipped_steps"] = optimizer_.status().skipped;
    }
    if (locator_) {
      report["first_overflow"] = ms::training::first_overflow(*locator_);
    }
    return report;
  }

  /// Loads the checkpoint to resume from, and returns its position. Unless tables are in parts, the
  /// ranks do it in turn, since those that are threads share the transforms that it loads.
  ms::data::LoaderPosition resume() {
    if (model_.in_parts()) {
      return load_checkpoint(options_, data_, model_, optimizer_, ranks_.world());
    }
    ms::data::LoaderPosition position;
    ranks_.in_turn(
        [&] { position = load_checkpoint(options_, data_, model_, optimizer_, ranks_.world()); });
    return position;
  }

  [[nodiscard]] bool looks_ahead() const noexcept {
    return model_.in_parts() && model_.in_parts()->looks_ahead();
  }
  [[nodiscard]] bool is_full(OwnRows const& own) const noexcept {
    return own.all_rows == plan_.loader.batch_size;
  }

  /// Returns the rows of the next step. If it can look ahead, they have the keys of the step after
  /// it, or after the last one its own: both are full, so that all that is sent has one shape.
  [[nodiscard]] OwnRows next_rows(std::deque<Feed>& feeds) {
    auto own = rows_after_ ? *std::exchange(rows_after_, std::nullopt) : read_rows(feeds, step_);
    if (looks_ahead() && is_full(own)) {
      if (step_ + 1 < last_step()) {
        rows_after_ = read_rows(feeds, step_ + 1);
      }
      auto const& after = rows_after_ ? *rows_after_ : own;
      if (is_full(after)) {
        // A rank has one part if tables are in parts.
        own.parts.front()->next_keys = after.parts.front()->keys;
      }
    }
    return own;
  }

  [[nodiscard]] OwnRows read_rows(std::deque<Feed>& feeds, std::int64_t step) const {
    OwnRows own;
    for (auto& feed : feeds) {
      auto const batch = feed.next();
      own.rows.push_back(batch->rows());
      bool const is_left_out = batch->rows() == 0 && !model_.in_parts();
      own.parts.push_back(is_left_out
                              ? std::nullopt
                              : std::optional(ms::training::click_batch(data_.columns, *batch)));
    }
    auto const in_epoch = step % plan_.batches_per_epoch();
    own.all_rows =
        std::min(plan_.loader.batch_size, plan_.rows - in_epoch * plan_.loader.batch_size);
    return own;
  }

  /// Returns the tensors that the model reads: one key in each field of a row, and one task.
  [[nodiscard]] static DeviceBatch<R> for_model(ClickBatch const& batch) {
    auto const& shape = batch.keys.shape();
    auto const flat = [&](auto const& keys) { return keys.reshaped({shape[0], shape[1]}); };
    DeviceBatch<R> tensors{
        flat(batch.keys), batch.continuous, batch.labels.reshaped({shape[1], 1})};
    if (batch.next_keys) {
      tensors.next_keys = flat(*batch.next_keys);
    }
    return tensors;
  }

  static ms::StreamPoolOptions pool_options(TrainOptions const& options) {
    return {.groups = options.stream_groups,
            .merge_streams = options.merge_streams,
            .launch_threads = options.launch_threads,
            .launch_thread_count = options.launch_thread_count};
  }

  [[nodiscard]] std::int64_t last_step() const {
    std::int64_t const all = plan_.batch_count();
    return options_.steps != 0 ? std::min(options_.steps, all) : all;
  }

  /// Trains to the end of the epoch that step_ is in, or to the last step, and then tests the
  /// model.
  nlohmann::ordered_json train_epoch(std::deque<Feed>& feeds) {
    std::int64_t const epoch = step_ / plan_.batches_per_epoch();
    std::int64_t const end = std::min(last_step(), (epoch + 1) * plan_.batches_per_epoch());
    std::int64_t const rows_to_do = std::min((end - step_) * plan_.loader.batch_size, plan_.rows);
    auto const title = fmt::format("epoch {}/{}", epoch + 1, options_.epochs);
    feed_.begin_part(title);
    ms::report::ProgressLine progress(title, rows_to_do, progress_style_);
    std::int64_t rows = 0;
    auto const started = Clock::now();
    auto const train_one = [&] {
      auto const own = next_rows(feeds);
      train_step(own);
      rows += own.all_rows;
      ++step_;
      harvest_losses(kStepsAhead);
      progress.update(
          rows, {{"loss", losses_.empty() ? std::nullopt : std::optional<double>(losses_.back())}});
    };
    while (step_ < end) {
      if (!options_.overlap.empty() && step_ == reported_step_) {
        auto const steps = static_cast<int>(std::min(end - step_, kReportedSteps));
        int const warm_up = end - step_ > steps ? 1 : 0;
        is_reporting_ = true;
        auto const report =
            ms::overlap_report(device_, train_one, {.warm_up = warm_up, .steps = steps});
        is_reporting_ = false;
        ms::cli::attempt_output(ms::cli::kOverlap, [&] { report.write(options_.overlap); });
      } else {
        train_one();
      }
    }
    harvest_losses(0);
    double const seconds = std::chrono::duration<double>(Clock::now() - started).count();
    progress.finish({{"loss", losses_.back()}});

    auto result = test();
    result["epoch"] = epoch + 1;
    result["complete"] = end == (epoch + 1) * plan_.batches_per_epoch();
    result["rows_per_s"] = static_cast<double>(rows) / seconds;
    result["seconds"] = seconds;
    print(result);
    return result;
  }

  void train_step(OwnRows const& own) {
    bool const traced = options_.traces_step() && step_ == traced_step_;
    bool const written = traced && !options_.trace.empty();
    bool const shown = !traced && !is_reporting_ && feed_.wants_timeline();
    if (written || shown) {
      pool_.synchronize();
      if (second_pool_) {
        second_pool_->synchronize();
      }
      feed_.begin_timeline();
      device_.start_spans();
    }
    ms::PinnedArray<float, R> staged(device_, 1);
    // The timeline of a replay would be one operation. Another rank does not know of `shown`.
    bool const is_eager = !options_.capture || traced || (shown && ranks_.world().size() == 1);
    ms::copy(staged, is_eager ? train(own) : replay(own));
    pending_losses_.push_back(std::move(staged));
    pending_rows_.push_back(own.all_rows);
    if (written) {
      ms::cli::write_output("--trace",
                            options_.trace,
                            ms::training::eager_step_json(device_.stop_spans(),
                                                          ms::training::Replays(options_.capture),
                                                          ranks_.rank_of_several()));
    } else if (shown) {
      feed_.note_timeline(step_ + 1, device_.stop_spans(), kStepsAhead);
    }
  }

  /// Issues a step, and returns the loss of the whole batch.
  ms::Tensor<float, R> train(OwnRows const& own) {
    auto loss = ranks_.backward(tape_, own.rows, own.all_rows, loss_scale_, [&](int part) {
      auto& pool = ranks_.has_halves() && part == 1 ? *second_pool_ : pool_;
      return model_.loss(tape_, pool, for_model(*own.parts[static_cast<std::size_t>(part)]));
    });
    optimizer_.step(tape_);
    tape_.clear();
    if (model_.in_parts()) {
      model_.in_parts()->end_step();
    }
    return loss;
  }

  /// Issues a step by a replay, which costs the host one launch, and returns its loss. The first
  /// full batch trains eagerly, and so does the last batch of an epoch if it is smaller; the second
  /// full batch is captured. Steps that look ahead have been captured, so that others train
  /// eagerly, as those on both sides of a smaller batch.
  ms::Tensor<float, R> replay(OwnRows const& own) {
    if (!is_full(own)) {
      return train(own);
    }
    if (!inputs_) {
      inputs_ = OwnRows{{}, own.rows, own.all_rows};
      for (auto const& part : own.parts) {
        auto& inputs = inputs_->parts.emplace_back(ms::training::room_for(*part));
        if (looks_ahead()) {
          inputs->next_keys.emplace(device_, part->keys.shape());
        }
      }
      return train(own);
    }
    if (looks_ahead() && !(model_.in_parts()->is_ahead() && own.parts.front()->next_keys)) {
      return train(own);
    }
    for (std::size_t part = 0; part < own.parts.size(); ++part) {
      ms::training::copy(*inputs_->parts[part], *own.parts[part]);
    }
    if (!captured_) {
      captured_.emplace(device_, [this] { captured_loss_ = train(*inputs_); });
    }
    captured_->replay();
    return *captured_loss_;
  }

  void harvest_losses(std::size_t leave) {
    while (pending_losses_.size() > leave) {
      pending_losses_.front().wait();
      pending_losses_.front().host_reads();
      float const loss = *pending_losses_.front().data();
      pending_losses_.pop_front();
      losses_.push_back(loss);
      feed_.note_step(loss, pending_rows_.front(), device_);
      pending_rows_.pop_front();
      watch_.note(first_step_ + static_cast<std::int64_t>(losses_.size()), loss, [&] {
        return ms::training::overflow_of_rank(locator_ ? &*locator_ : nullptr);
      });
    }
  }

  /// Returns the AUC and the log loss on the held-out rows.
  nlohmann::ordered_json test() {
    auto const rows = data_.held_out.rows();
    // A lookup of tables in parts exchanges room for as many samples as a batch can have.
    auto const batch_rows =
        model_.in_parts() ? options_.batch / ranks_.world().size() : kTestBatchRows;
    if (rows == 0) {
      return {{"test_auc", nullptr}, {"test_logloss", nullptr}};
    }
    typename ms::GradientTape<R>::Pause const no_gradients(tape_);
    Feed feed(device_,
              pool_[0],
              data_.held_out.reader(),
              ranks_.loader_to_evaluate({.batch_size = batch_rows,
                                         .threads = options_.reader_threads,
                                         .transforms = data_.transforms}));
    bool const alone = ranks_.is_alone();
    auto const auc =
        ms::training::area_metric(device_, ranks_.rows_to_evaluate(rows, batch_rows), !alone);
    ms::metrics::LogLoss log_loss(device_);
    ms::metrics::MetricSet const metrics(auc, log_loss);
    while (auto const fed = feed.next()) {
      auto const batch = for_model(ms::training::click_batch(data_.columns, *fed));
      auto const logits = model_.forward(tape_, pool_, batch);
      metrics.update(
          ranks_.of_all_ranks({.scores = logits,
                               .labels = batch.labels,
                               .weights = alone ? std::nullopt : std::optional(fed->mask())}));
    }
    auto const number = [&](auto const& metric) {
      auto const value = ms::training::value_unless_overflow(loss_scale_.has_value(),
                                                             [&] { return metric.value(); });
      return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
    };
    nlohmann::ordered_json result = {{"test_auc", number(auc)}, {"test_logloss", number(log_loss)}};
    if (!result["test_auc"].is_null()) {
      feed_.note_metric("test AUC", result["test_auc"].template get<double>());
    }
    return result;
  }

  void print(nlohmann::ordered_json const& result) const {
    if (options_.quiet) {
      return;
    }
    auto const four_digits = [](nlohmann::ordered_json const& value) {
      return ms::report::fixed(value.get<double>(), 4);
    };
    std::string line = fmt::format("epoch {}: ", result["epoch"].get<std::int64_t>());
    if (!result["test_auc"].is_null()) {
      line += fmt::format("test AUC {}, ", four_digits(result["test_auc"]));
    }
    if (!result["test_logloss"].is_null()) {
      line += fmt::format("log loss {}, ", four_digits(result["test_logloss"]));
    }
    auto const rate = static_cast<std::int64_t>(result["rows_per_s"].get<double>());
    ms::cli::print(fmt::format("{}{} rows/s\n", line, ms::report::grouped(rate)));
  }

  static constexpr std::int64_t kTestBatchRows = 4096;
  static constexpr std::int64_t kStepsBeforeTrace = 10;  ///< by then, the memory pools have grown
  static constexpr std::int64_t kReportedSteps = 3;

  TrainOptions const& options_;
  TrainingData& data_;
  ms::Device<R> device_;
  ms::StreamPool<R> pool_;
  ms::StreamScope<R> trunk_;  ///< all work outside branches runs on group 0
  ms::GradientTape<R> tape_;
  WideDeep<R> model_;
  ms::training::Ranks<R> ranks_;
  std::optional<ms::StreamPool<R>> second_pool_;  ///< of the second half of a batch
  std::optional<ms::LossScale<R>> loss_scale_;    ///< of float16
  std::optional<ms::NonFiniteLocator<R>> locator_;
  ms::Optimizer<R> optimizer_;
  ms::training::DashboardFeed<R> feed_;
  ms::training::LossWatch watch_;
  bool is_reporting_ = false;  ///< whether a report on overlap records the steps
  ms::report::ProgressLine::Style progress_style_;
  ms::training::EpochPlan plan_;
  std::int64_t step_ = 0;
  std::int64_t first_step_ = 0;
  std::int64_t skipped_before_ = 0;  ///< steps that were skipped before this run
  std::int64_t traced_step_ = 0;
  std::int64_t reported_step_ = 0;     ///< the first one for the report on overlap
  std::optional<OwnRows> rows_after_;  ///< of the step after the next, if they have been read
  std::optional<OwnRows> inputs_;      ///< what the captured step reads
  std::optional<ms::Tensor<float, R>> captured_loss_;
  std::optional<ms::CapturedStep<R>> captured_;
  std::deque<ms::PinnedArray<float, R>> pending_losses_;
  std::deque<std::int64_t> pending_rows_;  ///< of the steps of pending_losses_
  std::vector<float> losses_;
};

}  // namespace train_wdl
