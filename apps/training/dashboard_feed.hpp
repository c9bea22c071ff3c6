// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dashboard/board.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/trace/timeline.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace msstream::training {

/// Writes what a training does to a dashboard's board; without one, it does nothing. It measures
/// memory and timelines only while a browser asks, and so rarely that each takes less than a
/// quarter of a percent of the time. Used by the training's thread.
template <Runtime R>
class DashboardFeed {
 public:
  /// `board` may be null.
  explicit DashboardFeed(std::shared_ptr<dashboard::Board> board) : board_(std::move(board)) {}

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
    auto const now = Clock::now();
    board_->note_step(loss, rows, now);
    if (now >= memory_due_ && board_->is_watched(now)) {
      board_->note_memory(device.memory_statistics(), device.memory_by_stream());
      memory_due_ = after(now, std::chrono::seconds(1));
    }
  }
  /// Returns whether the next step should be recorded, from a time at which nothing runs.
  [[nodiscard]] bool wants_timeline() {
    if (board_ == nullptr) {
      return false;
    }
    timeline_begun_ = Clock::now();
    return timeline_begun_ >= timeline_due_ && board_->is_watched(timeline_begun_);
  }
  /// Notes the timeline of step number `step`, from 1, which has been recorded since
  /// wants_timeline() returned true. The host reads losses `steps_ahead` steps late, so the times
  /// of so many more steps do not count.
  void note_timeline(std::int64_t step, trace::Timeline timeline, std::size_t steps_ahead) {
    board_->note_timeline(step, std::move(timeline));
    board_->note_pause(static_cast<int>(steps_ahead) + 1);
    timeline_due_ = after(timeline_begun_, std::chrono::seconds(3));
  }

 private:
  using Clock = dashboard::Board::Clock;

  /// Returns the time at which to measure again what began at `begun` and is over now.
  static Clock::time_point after(Clock::time_point begun, Clock::duration least) {
    auto const now = Clock::now();
    return now + std::max(least, 400 * (now - begun));
  }

  std::shared_ptr<dashboard::Board> board_;
  Clock::time_point memory_due_{};
  Clock::time_point timeline_due_{};
  Clock::time_point timeline_begun_{};
};

}  // namespace msstream::training
