// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// A wait of a stream for an event, with the work that it waits for.
struct Wait {
  Index sync = kNone;    ///< in Recording::syncs
  Index target = kNone;  ///< the last activity before the event; kNone if there is none
  Ns called = 0;         ///< when the host made the wait
  Ns recorded = 0;       ///< when the host recorded the event
  bool known = false;    ///< whether the recording tells which event it is
};

/// The order of a recording's work: what was issued when, to which stream, after which waits.
class Program {
 public:
  explicit Program(Recording const& recording);

  [[nodiscard]] Recording const& recording() const noexcept { return recording_; }
  [[nodiscard]] Activity const& activity(Index i) const { return recording_.activities[i]; }
  [[nodiscard]] Call const& call(Index i) const { return recording_.calls[i]; }
  [[nodiscard]] Index device_of(Index activity) const {
    return recording_.streams[this->activity(activity).stream].device;
  }

  /// Activities by their begin.
  [[nodiscard]] std::span<Index const> of_device(Index device) const { return by_device_[device]; }
  [[nodiscard]] std::span<Index const> of_stream(Index stream) const { return by_stream_[stream]; }
  /// The streams of a device that have activities, in their order in the recording.
  [[nodiscard]] std::span<Index const> streams_of(Index device) const {
    return streams_by_device_[device];
  }

  /// The activities before and after one in its stream; kNone if there is none.
  [[nodiscard]] Index previous(Index activity) const {
    auto const place = place_in_stream_[activity];
    return place == 0 ? kNone : by_stream_[this->activity(activity).stream][place - 1];
  }
  [[nodiscard]] Index next(Index activity) const {
    auto const& stream = by_stream_[this->activity(activity).stream];
    auto const place = std::size_t{place_in_stream_[activity]} + 1;
    return place == stream.size() ? kNone : stream[place];
  }

  /// Whether streams may have waited for each other without a record of it: the recording has calls
  /// of waits without what they are for, or no calls but those that issue work, which proves
  /// nothing.
  [[nodiscard]] bool may_lack_waits() const noexcept { return may_lack_waits_; }
  /// The times in which other processes use a device in turn with this one, ascending and disjoint;
  /// empty if none is known to.
  [[nodiscard]] std::span<Interval const> turns_of_others(Index device) const {
    return turns_of_others_[device];
  }
  void set_turns_of_others(Index device, std::vector<Interval> times) {
    turns_of_others_[device] = std::move(times);
  }
  /// Whether the recording has the call of a wait of a stream.
  [[nodiscard]] bool calls_waits() const noexcept { return calls_waits_; }
  /// Whether the recording has the call that issued an activity.
  [[nodiscard]] bool has_call(Index activity) const {
    return this->activity(activity).call != kNone;
  }
  /// The time from which the device could run an activity: the end of its call, which is at most
  /// the begin of the activity. A call that also waits for its work issues it soon after its begin.
  /// Without a call, the begin of its graph or of itself, or what follows it in its stream was
  /// issued then.
  [[nodiscard]] Ns issued(Index activity) const { return issued_[activity]; }
  /// The time at which the host began to issue an activity: orders what one stream gets.
  [[nodiscard]] Ns called(Index activity) const;
  /// The thread that issued an activity; kNone without a call.
  [[nodiscard]] Index thread_of(Index activity) const {
    auto const call = this->activity(activity).call;
    return call == kNone ? kNone : this->call(call).thread;
  }

  /// When an activity could have begun but for what the device ran: it was issued, and what it
  /// follows in its stream and waits for had ended.
  [[nodiscard]] Ns ready(Index activity) const;

  /// The waits that were made in an activity's stream since the activity before it was issued.
  [[nodiscard]] std::span<Wait const> waits_of(Index activity) const;

  /// The waits that a stream had been given at a time of the host since its last activity, which
  /// whoever waits for the stream, or for an event recorded in it then, waits for as well.
  [[nodiscard]] std::span<Wait const> pending_waits(Index stream, Ns at) const;

  /// The last activity that was issued to a stream before a time of the host; kNone if none was.
  [[nodiscard]] Index last_issued(Index stream, Ns before) const;
  /// The activities that a call issued: [first, last) in activities_of_calls().
  [[nodiscard]] std::span<Index const> issued_by(Index call) const;
  /// The first synchronisation of a call; kNone if it has none.
  [[nodiscard]] Index sync_of(Index call) const {
    return sync_of_call_.empty() ? kNone : sync_of_call_[call];
  }

  /// Whether two activities are, or belong to, two launches of one executable graph, which run one
  /// after the other in whatever streams. Graphs of which launches were seen at once are several
  /// with one number.
  [[nodiscard]] bool are_runs_of_one_graph(Index first, Index second) const {
    auto const& a = activity(first);
    auto const& b = activity(second);
    return a.graph != kUnknown && a.graph == b.graph && a.call != kNone && b.call != kNone &&
           a.call != b.call && device_of(first) == device_of(second) &&
           !graphs_at_once_.contains({device_of(first), a.graph});
  }

  /// Whether the activity `after` needs what `before` wrote, directly or through others: as the
  /// program declares. Empty if it does not declare that, or if the search is too long.
  [[nodiscard]] std::optional<bool> declared(Index before, Index after) const;

 private:
  void order_streams();
  void look_for_waits();
  void find_issues();
  void join_waits();
  void join_calls();
  void find_graphs_at_once();

  Recording const& recording_;
  std::vector<std::vector<Interval>> turns_of_others_;  ///< of each device
  bool calls_waits_ = false;
  bool may_lack_waits_ = false;
  std::vector<std::vector<Index>> by_device_;
  std::vector<std::vector<Index>> by_stream_;
  std::vector<std::vector<Index>> streams_by_device_;
  std::vector<std::vector<Ns>> called_in_stream_;  ///< of each, the latest call so far
  std::vector<Index> place_in_stream_;
  std::vector<Ns> issued_;
  std::vector<std::vector<Wait>> waits_by_stream_;
  std::vector<Index> issued_begin_;  ///< of each call, the first of issued_activities_
  std::vector<Index> issued_activities_;
  std::vector<Index> sync_of_call_;
  std::set<std::pair<Index, std::int64_t>> graphs_at_once_;  ///< devices and graphs
  std::vector<Index> needs_begin_;  ///< of each activity, the first of needs_
  std::vector<Index> needs_;
};

/// The next activity of each stream of a device, from one instant to the next.
class NextActivities {
 public:
  NextActivities(Program const& program, Index device);

  /// Returns the first activity of each stream that begins at a time or later, ordered by streams.
  /// If there are more streams than 64, returns only the 64 activities that begin first. Each
  /// call's time must not be before that of the call before.
  [[nodiscard]] std::span<Index const> from(Ns time);

 private:
  Program const& program_;
  std::vector<Index> all_;  ///< the first to begin last
  std::vector<Index> first_;
};

}  // namespace msstream::overlap
