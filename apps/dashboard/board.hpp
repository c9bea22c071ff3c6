// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dashboard/curves.hpp"

#include <msstream/memory/statistics.hpp>
#include <msstream/trace/timeline.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::dashboard {

/// Collects the numbers of a running training in bounded memory, and writes them as JSON.
///
/// The training calls the functions that begin with `note_`, on one thread or several. They hold a
/// lock only to append to a list, or to exchange it, so a training never waits for a reader. The
/// functions for readers move what is new into the curves, and make the JSON, under a lock of their
/// own.
class Board {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  explicit Board(Description description) : curves_(std::move(description)) {}
  Board(Board const&) = delete;
  Board& operator=(Board const&) = delete;

  // Functions for the training.

  /// Notes how many steps were done before this training, which is resumed.
  void note_steps_before(std::int64_t steps);
  /// Notes that a part of the training begins, such as "epoch 2/3". The time before its first step
  /// is no time of a step.
  void note_part(std::string name);
  /// Notes that the next `steps` steps take longer than others, so that their times do not count.
  void note_pause(int steps = 1);
  /// Notes a step that is complete, and its loss. The time since the step before counts as its own.
  /// If readers are late by kMaxFresh steps, the step is counted, and left out of the curves.
  void note_step(float loss, std::int64_t rows, Time now = Clock::now());
  /// Notes a metric, such as the AUC of a task after an epoch.
  void note_metric(std::string name, double value);
  void note_memory(MemoryStatistics const& statistics, std::vector<StreamMemory> by_stream);
  /// Notes the timeline of the step with the number `step`, from 1. Keeps the first
  /// RecordedStep::kMaxSpans spans.
  void note_timeline(std::int64_t step, trace::Timeline timeline, Time now = Clock::now());
  /// Notes that the training has ended, after all other notes.
  void note_end(End end);
  /// Blocks until a client has got the end that note_end() noted, or for `most`. Returns whether
  /// one has. Does not wait if no reader has asked within the last five seconds.
  bool wait_until_end_is_seen(std::chrono::milliseconds most, Time now = Clock::now());

  /// Returns whether a reader has asked within the last five seconds, so that what costs time is
  /// worth measuring.
  [[nodiscard]] bool is_watched(Time now = Clock::now()) const noexcept;

  // Functions for readers.

  /// Moves what is new into the curves. To be called more often than once in kMaxFresh steps. If
  /// memory is short, it throws std::bad_alloc: what it has not moved is lost, and the steps among
  /// it count as left out.
  void fold();
  /// A text that was made from the curves.
  struct Text {
    std::string json;
    bool has_end;  ///< whether the end that note_end() noted is in it
  };
  /// Returns all but the timeline as JSON, and notes that there is a reader. The text may be
  /// kJsonAge old, so that many readers take no more of the processor than one; it is not older
  /// than the end of the training.
  [[nodiscard]] Text state(Time now = Clock::now());
  [[nodiscard]] std::string state_json(Time now = Clock::now()) { return state(now).json; }
  /// Returns the newest timeline as JSON, as state_json() does.
  [[nodiscard]] std::string timeline_json(Time now = Clock::now());
  /// Notes that a client has got a text with the end.
  void note_end_is_seen();

  static constexpr std::size_t kMaxFresh = std::size_t{1} << 16;  ///< steps not yet folded
  static constexpr std::chrono::milliseconds kJsonAge{200};

 private:
  struct Step {
    float loss;
    float ms;  ///< negative if it is not known
    std::int64_t rows;
  };
  struct Metric {
    std::int64_t step;
    std::string name;
    double value;
  };
  struct Memory {
    std::int64_t step;
    MemoryStatistics statistics;
    std::vector<StreamMemory> by_stream;
  };
  /// The notes of the training since the last fold().
  struct Fresh {
    std::optional<std::int64_t> steps_before = {};
    std::optional<std::string> part = {};
    std::vector<Step> steps = {};
    std::optional<Time> step_at = {};  ///< of the newest step
    std::int64_t left_out = 0;
    std::vector<Metric> metrics = {};
    std::optional<Memory> memory = {};
    std::optional<RecordedStep> timeline = {};
    std::optional<End> end = {};
  };

  /// A text, and when it was made.
  struct Made {
    std::optional<Time> at = {};
    Text text = {};
  };
  void fold_locked();
  [[nodiscard]] Text text(Made& made, std::string (Curves::*make)(Time) const, Time now);

  std::mutex fresh_mutex_;
  Fresh fresh_;
  std::int64_t steps_noted_ = 0;            ///< under fresh_mutex_
  std::optional<Time> last_step_at_;        ///< under fresh_mutex_
  int untimed_steps_ = 0;                   ///< under fresh_mutex_
  std::atomic<Clock::rep> reader_seen_{0};  ///< 0: there was none
  std::atomic<bool> has_end_{false};        ///< whether note_end() was called

  std::mutex seen_mutex_;
  std::condition_variable seen_;
  bool end_is_seen_ = false;  ///< under seen_mutex_

  std::mutex folded_mutex_;
  Fresh folding_;  ///< an empty list that fold() exchanges for the full one
  Curves curves_;
  Made state_;
  Made timeline_;
};

}  // namespace msstream::dashboard
