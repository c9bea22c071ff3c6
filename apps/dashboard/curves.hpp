// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dashboard/series.hpp"

#include <msstream/memory/statistics.hpp>
#include <msstream/trace/timeline.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::dashboard {

/// Describes the training to its viewers.
struct Description {
  std::string program = {};   ///< such as "train_wdl"
  std::string what = {};      ///< a line about the data and the device
  std::string unit = "rows";  ///< what a batch consists of
  int ranks = 1;              ///< of which rank 0 shows its own numbers
};

/// How a training has ended. `diverged`: by a loss that is not finite.
enum class EndStatus : std::uint8_t { finished, failed, diverged };

/// The end of a training.
struct End {
  EndStatus status;
  std::string text;  ///< a line for people, such as "failed: out of memory"
};

/// The timeline of a step, in bounded memory.
struct RecordedStep {
  static constexpr std::size_t kMaxSpans = 4000;

  /// Keeps the first kMaxSpans spans of the timeline.
  RecordedStep(std::int64_t number,
               trace::Timeline timeline,
               std::chrono::steady_clock::time_point time);

  std::int64_t step;  ///< its number, from 1
  std::chrono::steady_clock::time_point at;
  double length_ns;  ///< of the whole timeline
  trace::Timeline timeline;
  std::size_t left_out = 0;  ///< the number of spans beyond kMaxSpans
};

/// The numbers of a training over time, in bounded memory. Names come from files: they may be any
/// bytes. Not synchronised.
class Curves {
 public:
  static constexpr std::size_t kMaxNameBytes = 200;
  static constexpr std::size_t kMaxMetrics = 64;
  static constexpr std::size_t kMaxGroups = 64;
  static constexpr std::size_t kMaxStepTimes = 1024;
  static constexpr std::size_t kMaxGroupPoints = 64;  ///< of the curve of a stream group's memory

  explicit Curves(Description description) : description_(std::move(description)) {}

  /// Sets the number of steps that were done before, if the training is resumed.
  void set_steps_before(std::int64_t steps) noexcept { steps_ = steps; }
  void set_part(std::string name) { part_ = std::move(name); }
  /// Sets the time at which the newest step was complete.
  void set_step_at(std::chrono::steady_clock::time_point time) noexcept { step_at_ = time; }

  /// Adds a step; `ms` is negative if its time is not known. Counts the step before it may throw
  /// std::bad_alloc.
  void add_step(float loss, double ms, std::int64_t rows);
  /// Counts steps, the newest ones, of which nothing else is known.
  void leave_out_steps(std::int64_t count) noexcept;
  /// Adds a value of a metric. Metrics beyond kMaxMetrics are left out.
  void add_metric(std::int64_t step, std::string const& name, double value);
  /// Sets the memory in use. Of more than kMaxGroups stream groups, those with the least become one
  /// entry, "others". The first kMaxGroups groups have curves.
  void set_memory(std::int64_t step,
                  MemoryStatistics const& statistics,
                  std::vector<StreamMemory> const& by_stream);
  void set_timeline(RecordedStep recorded) { recorded_ = std::move(recorded); }
  void set_end(End end) { end_ = std::move(end); }
  [[nodiscard]] bool has_end() const noexcept { return end_.has_value(); }

  /// Returns all but the timeline, of which it gives the step and the age at the time `now`.
  /// Numbers that are not finite are the texts "NaN", "infinity" and "-infinity", in curves null.
  [[nodiscard]] std::string state_json(std::chrono::steady_clock::time_point now) const;
  [[nodiscard]] std::string timeline_json(std::chrono::steady_clock::time_point now) const;

 private:
  Description description_;
  std::string part_;
  std::int64_t steps_ = 0;  ///< the number of the newest step
  std::optional<std::chrono::steady_clock::time_point> step_at_;
  bool has_loss_ = false;
  std::int64_t left_out_ = 0;
  std::int64_t rows_ = 0;
  float loss_ = 0;
  Series losses_;
  std::vector<double> step_ms_;  ///< the newest ones, in any order
  std::size_t next_step_ms_ = 0;
  double rate_ms_ = 0;  ///< the time of the steps since the last point of rates_
  std::int64_t rate_rows_ = 0;
  std::optional<double> rate_;
  Series rates_;
  struct Metric {
    std::string name;
    double value;  ///< the newest
    Series curve;
  };
  /// The memory in use by a stream group.
  struct GroupMemory {
    std::string name;
    Series curve;
  };
  std::vector<Metric> metrics_;
  std::optional<MemoryStatistics> memory_;
  std::vector<std::pair<std::string, std::size_t>> live_by_group_;
  std::vector<GroupMemory> group_curves_;
  Series live_bytes_;
  Series reserved_bytes_;
  std::optional<RecordedStep> recorded_;
  std::optional<End> end_;
};

}  // namespace msstream::dashboard
