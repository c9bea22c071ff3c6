// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/counted.hpp"
#include "overlap/recording/duration_text.hpp"
#include "overlap/recording/recording.hpp"

#include <fmt/core.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// The number that a source gives to a call and to the work that the call issued. 0 and negative
/// numbers name none.
using Correlation = std::int64_t;

/// The call that recorded the event of a wait, by its correlation.
struct RecordedEvent {
  Correlation record = 0;
  Index stream = kNone;
  std::int64_t event = kUnknown;
  bool is_guess = false;  ///< the stream's device and context are those of the stream that waits
};

/// Makes a Recording from records that come in any order and refer to each other by correlations.
/// Times are ns of any clock, within ±kLatestTime.
///
/// Records that end before they begin are counted and left out; waits of streams, which take no
/// time, are kept.
class RecordingBuilder {
 public:
  static constexpr Ns kLatestTime = std::int64_t{1} << 62U;

  [[nodiscard]] NameId name(std::string_view text) { return recording_.names.id_of(text); }
  /// Returns the place of a device, stream or thread, which is added if it is new.
  [[nodiscard]] Index device(int number);
  [[nodiscard]] Index stream(int device, std::int64_t context, std::int64_t number);
  [[nodiscard]] Index thread(std::int64_t process, std::int64_t number);
  [[nodiscard]] Index shape(LaunchShape const& shape);
  /// Returns a stream that was added before, of any context.
  [[nodiscard]] Index find_stream(int device, std::int64_t number) const;

  void add(Activity const& activity, Correlation correlation);
  /// Takes a call; `code` is the function that made it, empty if that is not known.
  void add_call(Interval time,
                std::string_view name,
                Index thread,
                Correlation correlation,
                std::string_view code = {});
  void add(Sync const& sync, Correlation correlation, std::optional<RecordedEvent> const& recorded);
  void add(RecordedEvent const& recorded) { records_.push_back(recorded); }
  void add(Overhead const& overhead);
  void add(Range const& range);

  /// The recording so far; its devices' facts, origin and notes are filled in directly.
  [[nodiscard]] Recording& recording() noexcept { return recording_; }
  /// Returns how many records were left out, as they end before they begin, with the first one of
  /// them; empty if there were none.
  [[nodiscard]] std::string backwards_text() const;
  [[nodiscard]] std::size_t activities() const noexcept { return recording_.activities.size(); }

  /// Calls `take` with the process of each thread of the host.
  template <class Take>
  void for_each_thread(Take take) const {
    for (auto const& thread : recording_.threads) {
      take(thread.process);
    }
  }
  /// Calls `take` with the correlation and the process of each call that has a correlation.
  template <class Take>
  void for_each_call(Take take) const {
    for (std::size_t i = 0; i < call_facts_.size(); ++i) {
      if (call_facts_[i].correlation > 0) {
        take(call_facts_[i].correlation, recording_.threads[recording_.calls[i].thread].process);
      }
    }
  }
  /// Calls `take` with the correlation and the device's number of each activity, and whether it is
  /// a node of a graph.
  template <class Take>
  void for_each_work(Take take) const {
    for (std::size_t i = 0; i < issued_by_.size(); ++i) {
      auto const& stream = recording_.streams[recording_.activities[i].stream];
      take(issued_by_[i],
           recording_.devices[stream.device].number,
           recording_.activities[i].is_graph_node);
    }
  }
  /// The first time of all; 0 without any.
  [[nodiscard]] Ns first_time() const;

  /// Finds out whether the source rounded its times to µs.
  void find_clock_step();
  /// Joins records by their correlations, leaves out calls inside others, lets times begin at 0, or
  /// count from `zero`, and sorts. `unix_ns` is the Unix time of the source's time 0, if known.
  [[nodiscard]] Recording finish(std::optional<std::int64_t> unix_ns,
                                 std::optional<Ns> zero = std::nullopt);

 private:
  using Correlated = std::pair<Correlation, Index>;

  /// Whether a record ends before it begins. Such a record is counted, and to be left out;
  /// `describe` returns what it is.
  template <class Describe>
  [[nodiscard]] bool is_backwards(Interval time, Describe const& describe) {
    bool const is_so = time.end < time.begin;
    if (is_so) {
      backwards_.add(
          [&] { return fmt::format("{}, of {}", describe(), duration_text(time.length())); });
    }
    return is_so;
  }
  void leave_out_inner_calls();
  void join();
  void find_recorded_streams();
  void add_missing_calls();
  [[nodiscard]] Index call_of(Correlation correlation) const;

  struct CallFacts {
    Correlation correlation = 0;
    bool is_driver = false;
    std::optional<SyncKind> sync;
  };
  struct NamedCall {
    NameId name = 0;
    CallKind kind = CallKind::other;
    bool is_driver = false;
    std::optional<SyncKind> sync;
  };
  struct PendingSync {
    Correlation correlation = 0;
    Correlation record = 0;
  };

  Recording recording_;
  std::map<int, Index> devices_;
  std::map<std::tuple<int, std::int64_t, std::int64_t>, Index> streams_;
  std::map<std::pair<std::int64_t, std::int64_t>, Index> threads_;
  std::map<
      std::tuple<std::array<int, 3>, std::array<int, 3>, std::array<int, 3>, int, std::int64_t>,
      Index>
      shapes_;
  std::map<std::string, NamedCall, std::less<>> call_names_;
  std::vector<CallFacts> call_facts_;       ///< of recording_.calls
  std::vector<Correlation> issued_by_;      ///< of recording_.activities
  std::vector<PendingSync> pending_syncs_;  ///< of recording_.syncs
  std::vector<RecordedEvent> records_;
  std::vector<Correlated> calls_by_correlation_;  ///< ordered; made by join()
  Counted backwards_;                             ///< records that end before they begin
};

}  // namespace msstream::overlap
