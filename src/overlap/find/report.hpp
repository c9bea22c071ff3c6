// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/cause.hpp"
#include "overlap/recording/recording.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msstream::overlap {

/// The class of an instant of the window, for one device. Each ns has exactly one.
enum class TimeClass : std::uint8_t {
  overlapped,  ///< two or more activities
  alone,       ///< one activity, and no work that could have run beside it
  lost,        ///< one activity, and work that waited for a cause other than a true dependency
  idle,        ///< no activity, by a cause
};

/// A part of the window of one class and cause. `cause` is empty for overlapped and alone.
struct ClassSpan {
  Interval time;
  TimeClass kind = TimeClass::idle;
  std::optional<Cause> cause;
};

/// The sum of the spans of one class and cause.
struct ClassTime {
  TimeClass kind = TimeClass::idle;
  std::optional<Cause> cause;
  Ns time = 0;
};

/// One fact behind a finding. What it refers to is kNone if it refers to nothing such.
struct Evidence {
  std::string text;  ///< a sentence with names and numbers
  Interval time;
  Index activity = kNone;  ///< in the recording
  Index other = kNone;     ///< a second activity, such as the one that was in the way
  Index call = kNone;
};

/// The times between which a window ends up after a fix, if the recording does not decide it.
struct PredictedRange {
  Ns least = 0;
  Ns most = 0;
  std::string why;  ///< what it depends on: a sentence
};

/// The time of the window as simulated: as it was, and after the fix of one finding.
struct Prediction {
  Ns before = 0;
  Ns after = 0;
  std::optional<PredictedRange> range = {};
};

struct Finding {
  Cause cause = Cause::unknown;
  Index device = 0;
  std::string summary;              ///< one sentence: who waited for what, how often
  Ns lost = 0;                      ///< the length of the union of `intervals`
  std::vector<Interval> intervals;  ///< ascending and disjoint
  std::uint64_t occurrences = 0;
  std::vector<Evidence> evidence;  ///< the largest first, at most kMostEvidence
  std::string advice;              ///< what to change, in the terms of the program's framework
  std::optional<Prediction> prediction;
  bool is_guess = false;             ///< whether the program may need what it waited for
  std::vector<Index> overlaps_with;  ///< other findings whose gain contains a part of this one's
};
inline constexpr std::size_t kMostEvidence = 8;

/// How the time of one device was spent in the window.
struct DeviceReport {
  Index device = 0;
  std::vector<ClassSpan> spans;      ///< ascending; they fill the window without a gap
  std::vector<ClassTime> times;      ///< sums of `spans`; they add up to the window exactly
  std::vector<Ns> at_once;           ///< [n]: the time with exactly n activities
  Ns busy = 0;                       ///< the union of all activities
  std::vector<Index> critical_path;  ///< activities, in order
};

/// The cost of recording, and the window without it: an estimate from the cost of launches where it
/// was measured.
struct RecordingCost {
  std::uint64_t launches = 0;  ///< in the window
  Ns overhead = 0;             ///< of the host, to store what was recorded
  Ns least_per_launch = 0;     ///< by which a launch takes longer
  Ns most_per_launch = 0;
  Ns least_window = 0;  ///< without recording
  Ns most_window = 0;
};

/// The replay of the recorded program without a fix, which should take as long as recorded.
struct ReplayCheck {
  Ns recorded = 0;
  Ns replayed = 0;

  /// By which part of the recorded time the replay is off.
  [[nodiscard]] double error() const noexcept {
    auto const off = replayed > recorded ? replayed - recorded : recorded - replayed;
    return recorded > 0 ? static_cast<double>(off) / static_cast<double>(recorded) : 0;
  }
  /// Whether predictions can be made. Otherwise, findings have none, whatever they would gain.
  [[nodiscard]] bool is_trusted() const noexcept {
    constexpr double kMostError = 0.25;
    return error() < kMostError;
  }
};

/// The explanation of one file or run.
struct Report {
  Interval window;
  std::vector<DeviceReport> devices;
  std::vector<Finding> findings;  ///< the largest loss first, a chain of work last
  std::vector<std::string>
      notes;  ///< what could not be told and what to record for it; what recording cost
  /// The verdict in one sentence, such as "one stream, launch-bound: 8% busy".
  std::string verdict;
  std::optional<Prediction> together;  ///< after the fixes of all findings, if there are several
  std::optional<ReplayCheck> replay;   ///< empty without findings
  std::optional<RecordingCost> recording_cost;  ///< of recordings of msstream-overlap run
};

}  // namespace msstream::overlap
