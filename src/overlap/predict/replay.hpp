// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/hold.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/shared_streams.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// The changes to a program that fix a finding.
struct Fix {
  std::unordered_set<Index> calls;  ///< that neither wait nor take longer than to issue
  /// Waits of streams, in Recording::syncs, that are left out: for what each is instead, or kNone.
  std::unordered_map<Index, Index> waits;
  std::unordered_set<Index> moved;      ///< activities that get a stream of their own
  std::unordered_set<Index> own_order;  ///< those of them that follow no work of their stream
  /// Streams with their threads whose work in it gets a stream of its own.
  std::set<std::pair<Index, Index>> divided;
  std::unordered_set<Index> pinned;  ///< copies from or to pinned memory
  double bus_share = 1;              ///< the part of an assumed bus rate that these reach
  bool graph = false;                ///< launches are one graph's, which cost the host nothing
  bool begins_as_late = false;  ///< its kernels begin as long after what they wait for as they did
  bool fused = false;           ///< no time passes between activities that follow each other
  CauseSet no_overheads = {};   ///< the causes of recorded overheads that take no time
  bool no_gaps = false;         ///< the host does nothing else than calls
  bool no_legacy_stream = false;
  bool no_channels = false;
  std::unordered_set<Index> overtaking;  ///< copies that do not queue behind larger ones
  std::unordered_set<Index> passing;     ///< copies that would overtake larger ones in pieces
  std::unordered_set<Index> own_thread;  ///< activities that another thread issues
  bool shares_sms = false;               ///< kernels begin beside one that fills the device
  bool leaves_room = false;  ///< kernels take the room of their blocks alone, at full speed
  int room_sms = 0;          ///< kernels that fit on so few begin beside one that fills the device
  int parts_of_sms = 1;      ///< kernels that fill the device, at once, take a part of it each
  bool divides_all = false;  ///< those too whose registers say that they compute at full speed
  bool presumes_no_waits = false;  ///< of streams of which the recording does not tell
  bool no_skew = false;            ///< collectives wait for nobody
  bool small_collectives = false;  ///< they are as fast with few blocks

  /// Adds the changes of another fix.
  void add(Fix const& other);
};

/// Returns the fix of a cause, given what was charged to it; nothing if there is no fix that a
/// replay knows.
[[nodiscard]] std::optional<Fix> fix_of(Program const& program,
                                        Host const& host,
                                        Holds const& holds,
                                        SharedStreams const& shared,
                                        Cause cause,
                                        CauseSum const& sum);

/// The outcome of a replay.
struct Replayed {
  double makespan_ns = 0;  ///< from the first call or activity to the end of the window
  /// The time that no order of the work can go below: the calls of each thread, the work of each
  /// stream, the copies of each engine, and what the kernels take of the multiprocessors.
  double least_ns = 0;
};

/// Replays a window of a program, as it was or with a fix: the parts in the window of all
/// activities and calls, up to the begin of the first activity after it, which ends the time
/// without any at the window's end. Threads make their calls, with the time that each took and the
/// gaps between; streams run their work in order and wait as they did; the multiprocessors and copy
/// engines of each device are shared as in the simulated runtime.
class Replay {
 public:
  /// The ledgers tell which activities collectives kept back.
  Replay(Program const& program,
         Host const& host,
         Collectives const& collectives,
         std::span<Ledger const> ledgers,
         Interval window);

  [[nodiscard]] Replayed run(Fix const& fix) const;
  /// Returns the time that the recorded program took, from the instant at which a replay begins to
  /// the end of the window. A replay without a fix should take as long.
  [[nodiscard]] Ns recorded_ns() const;
  /// Returns whether the rate of pinned copies of any of some copies' devices is that of the bus,
  /// since the recording has no pinned copies.
  [[nodiscard]] bool assumes_bus(std::unordered_set<Index> const& copies) const;

 private:
  class Run;

  static constexpr std::size_t kDirections = 6;  ///< of CopyDirection

  /// A call of a thread that matters to the device or takes time.
  struct Step {
    Index call = kNone;
    Ns gap = 0;        ///< since `after`
    Ns cost = 0;       ///< apart from waiting
    Index after = 0;   ///< the place of the step that it follows, plus 1; 0 for the start
    Ns recording = 0;  ///< the part of the gap in which the recorder held the thread up
    Ns loading = 0;    ///< the part of the gap in which kernels were loaded
    bool long_gap = false;
    bool waits = false;
    std::uint32_t first_target = 0;  ///< in targets_: activities that it waits for
    std::uint32_t targets = 0;
  };
  struct Work {
    Ns device_ns = 0;
    Ns latency = 0;  ///< from when it can run to its begin
    Ns issued = 0;   ///< since the begin of its call
    int sms = 0;     ///< 0 for copies
    int filled_sms = 0;
    Index step = 0;  ///< that issues it, plus 1; 0 if it was issued before the window
    bool fills = false;
    bool one_wave = false;  ///< all blocks run at once
    /// Whether its blocks, which run at once, were seen to wait in part for what ran before.
    bool begins_in_parts = false;
    bool computes = false;  ///< has most of the registers, as kernels that compute at full speed
  };

  /// The latest ends of the kernels and fills of a device so far.
  struct BusyUntil {
    Ns any = 0;
    Ns full = 0;  ///< of those that fill the device
  };

  /// Times of recorded overheads of each thread, or of kNone for all threads: ascending, disjoint.
  using Overheads = std::map<Index, std::vector<Interval>>;

  /// The stream that a moved activity gets: work of one thread and kind moves together.
  using NewStream = std::tuple<Index, Index, ActivityKind, CopyDirection>;
  [[nodiscard]] NewStream new_stream_of(Index i) const;
  /// Returns the thread whose work has a stream of its own by a fix; kNone for all other work.
  [[nodiscard]] Index owner_of(Index i, Fix const& fix) const {
    auto const thread = program_.thread_of(i);
    bool const is_own =
        !fix.divided.empty() && fix.divided.contains({program_.activity(i).stream, thread});
    return is_own ? thread : kNone;
  }

  [[nodiscard]] Index before_moved_kernel(Index i) const;
  [[nodiscard]] Index first_step_since_wait(Index step) const;
  [[nodiscard]] bool is_needed_after(Index moved, Index next) const;
  void take_steps();
  void take_work();
  void take_room(Work& work, Index i, std::optional<Ns> alone, BusyUntil& until) const;
  void fit_to_recording();
  void find_pinned_rates();
  void find_engines();
  void find_overheads();
  [[nodiscard]] static Ns time_in(Overheads const& overheads, Index thread, Interval gap);
  void find_targets(Step& step);
  [[nodiscard]] Interval time_of(Index call) const;
  /// The part of an activity in the window; without length for the one that follows the window.
  [[nodiscard]] Interval time_in_window(Index activity) const {
    return clipped(program_.activity(activity).time, window_);
  }
  /// Whether an activity ran when the window began.
  [[nodiscard]] bool runs_at_begin(Index activity) const {
    return program_.activity(activity).time.begin < window_.begin;
  }
  void order_by_end();
  [[nodiscard]] std::span<Index const> ended_in(Interval time, Index device) const;
  void take_targets(Interval time, Index stream);
  [[nodiscard]] Index ended_at(Ns time, Index device) const;
  [[nodiscard]] Index presumed_target(Index activity) const;
  [[nodiscard]] Index kept_back_by(Index activity) const;
  [[nodiscard]] Index unseen_target(Index activity, Fix const& fix) const;
  // The recorded times, as a fix changes them.
  [[nodiscard]] std::pair<double, double> gap_and_cost(Step const& step, Fix const& fix) const;
  [[nodiscard]] double device_ns(std::size_t activity, Fix const& fix) const;
  [[nodiscard]] static bool is_divided(Work const& work, Fix const& fix);
  /// Whether a kernel begins beside one that fills the device.
  [[nodiscard]] static bool finds_room(Work const& work, Fix const& fix) {
    return fix.shares_sms || (work.sms > 0 && work.filled_sms <= fix.room_sms);
  }
  [[nodiscard]] int sms_of(std::size_t activity, Fix const& fix) const;
  [[nodiscard]] double least_ns(Fix const& fix) const;
  [[nodiscard]] bool is_inside(Index activity) const { return places_[activity] != kNone; }

  Program const& program_;
  Host const& host_;
  Collectives const& collectives_;
  Interval window_;
  Ns start_ = 0;
  Ns tail_ = 0;  ///< the time at the end of the window that nothing follows
  /// When the host made waits of streams of which the recording does not tell for what; ascending.
  std::vector<Ns> unknown_waits_;
  std::vector<Index> activities_;  ///< ascending
  std::vector<Index> places_;      ///< of each activity in activities_, or kNone
  std::vector<Work> work_;         ///< as activities_
  std::vector<Step> steps_;        ///< by the begin of their calls
  std::vector<Index> targets_;
  std::unordered_set<Index> held_by_collectives_;
  Overheads recorder_;  ///< of the tool that recorded
  Overheads loading_;
  std::vector<std::vector<Index>> by_end_;  ///< of each device, its activities
  std::vector<Index> round_of_stream_;      ///< of each stream, the last call that it was seen for
  Index round_ = 0;
  std::vector<bool> assumes_bus_;     ///< of each device, whether its rate is that of the bus
  std::vector<double> pinned_rates_;  ///< of each device, bytes per ns
  /// The copies that a device was seen to run at once, at least 1: of each device, by direction.
  std::vector<std::array<int, kDirections>> engines_;
};

}  // namespace msstream::overlap
