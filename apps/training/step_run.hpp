// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "cli/overlap_option.hpp"
#include "training/choose_groups.hpp"
#include "training/dashboard_feed.hpp"
#include "training/epoch_plan.hpp"
#include "training/float16_options.hpp"
#include "training/loss_watch.hpp"
#include "training/step_options.hpp"
#include "training/step_report.hpp"
#include "training/step_timeline.hpp"
#include "training/step_training.hpp"
#include "training/trace_step.hpp"

#include <msstream/overlap/report.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/step/auto_assignment.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iostream>
#include <iterator>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::training {

/// Runs a program's training as its options say. If the options ask for it, first traces a step and
/// chooses groups. Then trains and reports.
template <Runtime R, class Build, class TrainingType = StepTrainingOf<R, Build>>
class StepRun {
 public:
  using Training = TrainingType;

  /// Prepares the training. `build(device)` returns the model and inputs that hold a batch, as a
  /// pair, and is called once for each training, including those of trials. `last_step` is the
  /// number of steps in all calls of train(). `unit` names the rows of a batch in the progress. If
  /// there are several ranks, the options must not ask for a choice of groups or a traced step.
  StepRun(StepOptions const& options,
          std::int64_t last_step,
          Build const& build,
          char const* unit = "rows",
          RankSetting const& rank = {})
      : options_(options),
        assignment_(prepare(build)),
        training_(setting_to_train(), options.rule(), build, assignment_, rank),
        feed_(options.board()),
        watch_(options.scaling.has_value(), options.learning_rate),
        style_(report::ProgressLine::Style::of_stderr(options.quiet)),
        last_step_(last_step) {
    style_.unit = unit;
    start_at(0);
  }

  /// Makes the next step the one after the first `steps`, which an earlier run has trained. Call it
  /// before the first step of this run.
  void start_at(std::int64_t steps) {
    first_step_ = steps_done_ = steps;
    timed_step_ = std::min(steps + kStepsBeforeTrace, last_step_ - 1);
    reported_step_ = std::clamp(last_step_ - kReportedSteps - 1, steps, steps + kStepsBeforeTrace);
    feed_.note_steps_before(steps);
    if (steps > 0 && training_.loss_scale()) {
      skipped_before_ = training_.optimizer().status().skipped;
    }
  }

  [[nodiscard]] Training& training() noexcept { return training_; }
  /// Returns what writes to the dashboard, for metrics.
  [[nodiscard]] DashboardFeed<R>& feed() noexcept { return feed_; }
  /// Returns the losses of those steps whose losses the host has read.
  [[nodiscard]] std::vector<float> const& losses() const noexcept { return measured_.losses; }

  /// Trains `steps` steps. Calls `feed(inputs)` before each one, which writes the next batch in
  /// place. Blocks the host until the losses are known. Throws Diverged for losses that are not
  /// finite, as LossWatch does.
  template <class Feed>
  void train(std::int64_t steps, std::int64_t rows_a_step, std::string title, Feed&& feed) {
    rows_a_step_ = rows_a_step;
    feed_.begin_part(title);
    report::ProgressLine progress(std::move(title), steps * rows_a_step, style_);
    arrived_.reset();
    auto const first = steps_done_;
    while (steps_done_ < first + steps) {
      bool const reports = !options_.overlap.empty() && steps_done_ == reported_step_;
      auto const train_one = [&] {
        training_.take(feed, steps_done_ + 1 == first + steps);
        train_step();
        harvest(kStepsAhead, !reports);
        progress.update((steps_done_ - first) * rows_a_step, {{"loss", latest_loss()}});
      };
      if (reports) {
        write_overlap(first + steps - steps_done_, train_one);
      } else {
        train_one();
      }
    }
    harvest(0, false);
    progress.finish({{"loss", latest_loss()}});
  }

  /// Trains to the end of the next epoch of the plan, or to the last step. Returns the epoch's
  /// number, mean of the finite losses (NaN if there are none), speed and time.
  template <class Feed>
  [[nodiscard]] nlohmann::ordered_json train_epoch(EpochPlan const& plan, Feed&& feed) {
    auto const first = steps_done_;
    auto const epoch = first / plan.batches_per_epoch() + 1;
    auto const end = std::min(last_step_, epoch * plan.batches_per_epoch());
    auto const started = Clock::now();
    auto const batch_size = plan.loader.batch_size;
    train(end - first, batch_size, fmt::format("epoch {}/{}", epoch, plan.loader.epochs), feed);
    double const seconds = std::chrono::duration<double>(Clock::now() - started).count();
    // With a loss scale, the losses of skipped steps may not be finite.
    std::vector<float> finite;
    std::copy_if(
        losses().end() - (end - first), losses().end(), std::back_inserter(finite), [](float loss) {
          return std::isfinite(loss);
        });
    auto const mean =
        std::accumulate(finite.begin(), finite.end(), 0.0) / static_cast<double>(finite.size());
    return {{"epoch", epoch},
            {"complete", end == epoch * plan.batches_per_epoch()},
            {"loss", mean},
            {fmt::format("{}_per_s", style_.unit),
             static_cast<double>((end - first) * batch_size) / seconds},
            {"seconds", seconds}};
  }
  [[nodiscard]] bool is_over() const noexcept { return steps_done_ == last_step_; }

  /// Returns the options and measurements as JSON. All ranks call it.
  [[nodiscard]] nlohmann::ordered_json report() {
    auto report = own_report();
    if (training_.locator()) {
      report["first_overflow"] =
          first_overflow_of_ranks(training_.ranks().texts_of_all(report["first_overflow"].dump()));
    }
    if (training_.loss_scale() && !options_.quiet) {
      std::cerr << skipped_warning(options_,
                                   measured_.skipped_steps - skipped_before_,
                                   static_cast<std::int64_t>(measured_.losses.size()));
    }
    return report;
  }
  /// Returns report() of this rank alone, whose first overflow is its own, also after a failure.
  [[nodiscard]] nlohmann::ordered_json own_report() {
    auto const& device = training_.device();
    measured_.captured = training_.is_captured();
    measured_.waits_in_graph = training_.waits_in_graph();
    measured_.operations = device.operation_count();
    measured_.waits = device.wait_counts();
    measured_.memory = device.memory_statistics();
    if (auto const& scale = training_.loss_scale()) {
      measured_.loss_scale = scale->value();
      measured_.skipped_steps = training_.optimizer().status().skipped;
    }
    if (auto const& locator = training_.locator()) {
      measured_.first_overflow = first_overflow(*locator);
    }
    return report_of(options_, measured_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The number of steps that the host may be ahead of the last loss that it has read.
  static constexpr std::size_t kStepsAhead = 2;
  /// The number of steps that are not timed: the first is eager, and the second may be captured.
  static constexpr std::size_t kUntimedSteps = 2;
  static constexpr std::int64_t kStepsBeforeTrace = 10;  ///< by then, the memory pools have grown
  static constexpr std::int64_t kReportedSteps = 3;

  [[nodiscard]] StepSetting setting_to_train() const {
    auto setting = options_.setting();
    setting.finds_overflow = options_.find_overflow;
    return setting;
  }

  /// Chooses stream groups and traces a step before the training is made, if the options ask for
  /// it. Stores the results in `measured_`, and returns the assignment.
  std::optional<StreamAssignment> prepare(Build const& build) {
    auto assignment = options_.read_assignment();
    if (options_.chooses_groups()) {
      auto style = report::ProgressLine::Style::of_stderr(options_.quiet);
      style.unit = "trials";
      report::ProgressLine progress("choosing groups", kGroupTrials, style);
      progress.update(0);
      auto const choice = choose_groups<R>(
          options_.setting(), options_.rule(), build, [&](int done) { progress.update(done); });
      progress.finish();
      cli::write_output("--save-assignment", options_.save_assignment, choice.text);
      assignment =
          StreamAssignment::parse(choice.text, "--assignment auto", options_.stream_groups);
      auto const& predicted = choice.predicted;
      measured_.predicted = {predicted.predicted_ns * 1e-6,
                             predicted.one_group_ns * 1e-6,
                             predicted.recorded_ns * 1e-6};
      measured_.tried = choice.tried;
    }
    if (options_.records_step()) {
      measured_.traced =
          trace_step<R>(options_, options_.setting(), options_.rule(), build, assignment);
    }
    return assignment;
  }

  void train_step() {
    bool const traced = options_.traces_step() && steps_done_ == timed_step_;
    bool const timed = traced && !options_.trace.empty();
    bool const shown = !timed && !is_reporting_ && feed_.wants_timeline();
    auto const& device = training_.device();
    if (timed || shown) {
      training_.synchronize();
      feed_.begin_timeline();
      device.start_spans();
    }
    // The timeline of a replay would be one operation. Another rank does not know of `shown`.
    if (traced || (shown && training_.ranks().world().size() == 1)) {
      training_.step_eagerly();
    } else {
      training_.step();
    }
    if (timed) {
      cli::write_output(
          "--trace",
          options_.trace,
          eager_step_json(
              device.stop_spans(), Replays(options_.capture), training_.ranks().rank_of_several()));
    } else if (shown) {
      feed_.note_timeline(steps_done_ + 1, device.stop_spans(), kStepsAhead);
      arrived_.reset();  // the recorded step was slower than others
    }
    // Publishes the loss of the step before this one, so that reading it does not wait for later
    // steps. One step later, publish() does not have to wait for launch threads, either.
    if (!pending_.empty()) {
      publish(pending_.back());
    }
    PinnedArray<float, R> staged(device, 1);
    copy(staged, training_.loss());
    pending_.push_back(std::move(staged));
    // With --capture, the second step may be captured: its operation is then "replay", which a line
    // of the assignment may match.
    if (++steps_done_ == std::min(first_step_ + (options_.capture ? 2 : 1), last_step_)) {
      warn_of_unmatched();
    }
  }

  /// Trains a step that warms up and some more, `most` in total, and writes why the streams of
  /// these did not overlap.
  template <class TrainOne>
  void write_overlap(std::int64_t most, TrainOne const& train_one) {
    auto const steps = std::min(most, kReportedSteps);
    is_reporting_ = true;
    auto const report =
        overlap_report(training_.device(),
                       train_one,
                       {.warm_up = most > steps ? 1 : 0, .steps = static_cast<int>(steps)});
    cli::attempt_output(cli::kOverlap, [&] { report.write(options_.overlap); });
    is_reporting_ = false;
    arrived_.reset();  // the recorded steps were slower than others
  }

  void warn_of_unmatched() const {
    if (!assignment_ || options_.chooses_groups() || options_.quiet) {
      return;
    }
    for (auto const& line : assignment_->unmatched_lines()) {
      std::cerr << fmt::format("warning: no operation of a step matches {}\n", line);
    }
  }

  /// Reads losses until `leave` steps are pending. If `issuing`, a whole step lies between two
  /// losses, so the time between them is recorded.
  void harvest(std::size_t leave, bool issuing) {
    while (pending_.size() > leave) {
      pending_.front().wait();
      pending_.front().host_reads();
      float const loss = *pending_.front().data();
      pending_.pop_front();
      auto const now = Clock::now();
      if (issuing && arrived_ && measured_.losses.size() >= kUntimedSteps) {
        measured_.step_ms.push_back(
            std::chrono::duration<double, std::milli>(now - *arrived_).count());
      }
      arrived_ = now;
      measured_.losses.push_back(loss);
      feed_.note_step(loss, rows_a_step_, training_.device());
      watch_.note(first_step_ + static_cast<std::int64_t>(measured_.losses.size()), loss, [&] {
        return overflow_of_rank(training_.locator() ? &*training_.locator() : nullptr);
      });
    }
  }
  [[nodiscard]] std::optional<double> latest_loss() const {
    return measured_.losses.empty() ? std::nullopt
                                    : std::optional(static_cast<double>(measured_.losses.back()));
  }

  StepOptions const& options_;
  StepMeasurements measured_;
  std::optional<StreamAssignment> assignment_;
  Training training_;
  DashboardFeed<R> feed_;
  LossWatch watch_;
  report::ProgressLine::Style style_;
  std::int64_t rows_a_step_ = 0;
  bool is_reporting_ = false;  ///< whether a report on overlap records the steps
  std::int64_t last_step_;
  std::int64_t first_step_ = 0;
  std::int64_t timed_step_ = 0;
  std::int64_t reported_step_ = 0;  ///< the first one for the report on overlap
  std::int64_t steps_done_ = 0;
  std::int64_t skipped_before_ = 0;  ///< steps that were skipped before this run
  std::deque<PinnedArray<float, R>> pending_;
  std::optional<Clock::time_point> arrived_;
};

}  // namespace msstream::training
