// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dashboard/board.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/trace/timeline.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace msstream::training {

/// Returns how long to wait after a measurement that delayed the training by `cost`, at least
/// `least`: 400 times as long, so that measurements take a quarter of a percent of the time. Where
/// that would be more than 30 s, 30 s are enough while the measurements take at most one percent.
[[nodiscard]] inline dashboard::Board::Clock::duration time_between_measurements(
    dashboard::Board::Clock::duration cost, dashboard::Board::Clock::duration least) {
  dashboard::Board::Clock::duration const most = std::chrono::seconds(30);
  return std::max(least, std::min(400 * cost, std::max(most, 100 * cost)));
}

/// Writes what a training does to a dashboard's board; without one, it does nothing. It measures
/// memory and timelines only while a browser asks, and so rarely that they cost little: see
/// time_between_measurements(). Used by the training's thread.
template <Runtime R>
class DashboardFeed {
 public:
  using Clock = dashboard::Board::Clock;

  /// `board` may be null. `now` returns the time.
  explicit DashboardFeed(std::shared_ptr<dashboard::Board> board,
                         std::function<Clock::time_point()> now = &Clock::now)
      : board_(std::move(board)), now_(std::move(now)) {}

  /// Notes how many steps were done before this training, which is resumed.
  void note_steps_before(std::int64_t steps) {
    if (board_ != nullptr) {
      board_->note_steps_before(steps);
    }
  }
  /// Notes that a part of the training begins, such as "epoch 2/3".
  void begin_part(std::string name) {
    if (board_ != nullptr) {
      board_->note_part(std::move(name));
      last_step_at_.reset();
    }
  }
  void note_metric(std::string name, double value) {
    if (board_ != nullptr) {
      board_->note_metric(std::move(name), value);
    }
  }
  /// Notes the loss of a step that is complete, and if it is time the memory of the device.
  void note_step(float loss, std::int64_t rows, Device<R> const& device) {
    if (board_ == nullptr) {
      return;
    }
    auto const now = now_();
    board_->note_step(loss, rows, now);
    if (last_step_at_ && untimed_steps_ == 0) {
      step_time_ = now - *last_step_at_;
    }
    untimed_steps_ -= untimed_steps_ > 0 ? 1 : 0;
    last_step_at_ = now;
    if (now >= memory_due_ && board_->is_watched(now)) {
      board_->note_memory(device.memory_statistics(), device.memory_by_stream());
      auto const end = now_();
      memory_due_ = end + time_between_measurements(end - now, std::chrono::seconds(1));
    }
  }
  /// Returns whether the next step should be recorded, from a time at which nothing runs.
  [[nodiscard]] bool wants_timeline() const {
    if (board_ == nullptr) {
      return false;
    }
    auto const now = now_();
    return now >= timeline_due_ && board_->is_watched(now);
  }
  /// Notes that the steps before the recorded one are complete. The wait for them is no cost of the
  /// recording, since the device works meanwhile.
  void begin_timeline() { timeline_begun_ = now_(); }
  /// Notes the timeline of step number `step`, from 1, which has been recorded since
  /// begin_timeline(). Of the time since then, what is beyond the time of a usual step is the cost.
  /// The host reads losses `steps_ahead` steps late, so the times of so many more steps do not
  /// count.
  void note_timeline(std::int64_t step, trace::Timeline timeline, std::size_t steps_ahead) {
    auto const now = now_();
    board_->note_timeline(step, std::move(timeline), now);
    untimed_steps_ = static_cast<int>(steps_ahead) + 1;
    board_->note_pause(untimed_steps_);
    auto const cost = std::max(now - timeline_begun_ - step_time_, Clock::duration::zero());
    timeline_due_ = now + time_between_measurements(cost, std::chrono::seconds(3));
  }

 private:
  std::shared_ptr<dashboard::Board> board_;
  std::function<Clock::time_point()> now_;
  std::optional<Clock::time_point> last_step_at_;
  int untimed_steps_ = 0;        ///< steps whose times are not those of usual ones
  Clock::duration step_time_{};  ///< of the newest usual step; 0 before there is one
  Clock::time_point memory_due_{};
  Clock::time_point timeline_due_{};
  Clock::time_point timeline_begun_{};
};

}  // namespace msstream::training
