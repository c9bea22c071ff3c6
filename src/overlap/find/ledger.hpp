// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/cause.hpp"
#include "overlap/find/report.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// Causes that kept work from running beside an activity, at no loss: the time without them is
/// equal.
using CauseSet = std::array<bool, kCauses>;

/// The kind of record that is missing to explain a part of the time.
enum class Missing : std::uint8_t {
  nothing,
  calls,
  waits,
  channels,
  graph_edges,
  host_functions,  ///< when they ran
  values,          ///< which work waited until memory had a value
  turns,           ///< of contexts on one device
  stream_types,
};
inline constexpr int kMissing = 9;

/// A part of a device's time, with what it is charged to.
struct Charge {
  Interval time;
  TimeClass kind = TimeClass::idle;
  std::optional<Cause> cause;
  Index held = kNone;    ///< the activity that could not begin
  Index holder = kNone;  ///< the activity that was in the way
  Index call = kNone;    ///< the host's call meanwhile
  Index wait = kNone;    ///< the stream's wait that held it, in Recording::syncs
  /// Whether all other work needed the one activity. Of idle time, whether it is work of another
  /// device that was needed.
  bool depends = false;
  Missing missing = Missing::nothing;  ///< of the cause `unknown`
  bool is_guess = false;  ///< whether what was held may need the holder, in spite of the cause
  /// Whether what was held found no room beside the holder, which cost nothing; without a cause.
  bool is_full = false;
};

/// The sum of all charges to one cause.
struct CauseSum {
  std::vector<Interval> intervals;  ///< ascending and disjoint
  std::vector<Charge> largest;      ///< at most kMostEvidence occurrences, the largest first
  Charge last;                      ///< the occurrence that the next charge may continue
  /// The time that the call of `last` took of it, and the call of the latest charge with its time:
  /// an occurrence names the call that took the most.
  Ns longest_call = 0;
  Index latest_call = kNone;
  Ns latest_call_time = 0;
  std::vector<Index> calls;    ///< of the host, that were charged; ascending
  std::vector<Index> held;     ///< activities
  std::vector<Index> holders;  ///< activities
  std::vector<Index> waits;
  std::uint64_t occurrences = 0;
  Ns idle = 0;
  Ns lost = 0;
  Ns beside = 0;   ///< that has the class `overlapped` or `alone`
  Ns guessed = 0;  ///< of all, by guesses

  [[nodiscard]] Ns time() const noexcept { return idle + lost + beside; }
  /// Whether most of the time is guessed.
  [[nodiscard]] bool is_guess() const noexcept { return 2 * guessed > time(); }
};

/// Takes a device's time, charge by charge, and keeps the sums by class and cause.
class Ledger {
 public:
  /// Makes room for spans; memory that stays empty is not taken from the system.
  void reserve(std::size_t spans) { spans_.reserve(spans); }
  /// Adds a charge that begins where the one before ended.
  void add(Charge const& charge);
  /// Adds to a cause time that has another class already, after what the cause has.
  void add_beside(Charge const& charge);
  /// Adds time in which `count` activities run.
  void add_at_once(std::size_t count, Ns time);
  /// Takes a sum of time that has another class already.
  void put(Cause cause, CauseSum sum) { sums_[static_cast<std::size_t>(cause)] = std::move(sum); }
  /// Ends the last occurrences, and orders what was gathered.
  void close();

  [[nodiscard]] std::vector<ClassSpan> const& spans() const noexcept { return spans_; }
  /// Returns the spans, which the ledger has no more; times() needs them.
  [[nodiscard]] std::vector<ClassSpan> take_spans() noexcept { return std::move(spans_); }
  /// Returns the intervals of a cause's sum, which the ledger has no more.
  [[nodiscard]] std::vector<Interval> take_intervals(Cause cause) noexcept {
    auto& sum =
        cause == Cause::true_dependency ? dependent_ : sums_[static_cast<std::size_t>(cause)];
    return std::move(sum.intervals);
  }
  [[nodiscard]] std::vector<Ns> const& at_once() const noexcept { return at_once_; }
  [[nodiscard]] std::vector<ClassTime> times() const;
  [[nodiscard]] CauseSum const& of(Cause cause) const {
    return sums_[static_cast<std::size_t>(cause)];
  }
  [[nodiscard]] Ns missing(Missing what) const { return missing_[static_cast<std::size_t>(what)]; }
  /// The kind of record whose lack leaves the most time unexplained.
  [[nodiscard]] Missing mostly_missing() const;
  /// Time with one activity that all other work needed, which is not charged to a cause, and idle
  /// time before work that needed another device.
  [[nodiscard]] CauseSum const& dependent() const noexcept { return dependent_; }
  [[nodiscard]] Ns busy() const noexcept { return busy_; }

 private:
  static void gather(CauseSum& sum, Charge const& charge);
  static void name_call(CauseSum& sum, Charge const& charge);

  std::vector<ClassSpan> spans_;
  std::vector<Ns> at_once_;
  std::array<CauseSum, kCauses> sums_{};
  CauseSum dependent_;
  std::array<Ns, kMissing> missing_{};
  Ns busy_ = 0;
};

}  // namespace msstream::overlap
