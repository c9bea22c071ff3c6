// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/cause.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/tolerances.hpp"

#include <cstddef>
#include <unordered_map>
#include <vector>

namespace msstream::overlap {

/// The state of the host in a part of its time, as the cause of the time that a device lost
/// meanwhile.
struct HostState {
  Interval time;
  Cause cause = Cause::launch_bound;
  Index call = kNone;  ///< kNone between calls
};

/// Returns the cause of time that an overhead took.
[[nodiscard]] constexpr Cause cause_of(OverheadKind kind) noexcept {
  return kind == OverheadKind::recording       ? Cause::recording_overhead
         : kind == OverheadKind::queue_is_full ? Cause::queue_is_full
                                               : Cause::lazy_loading;
}

/// A call in which the host could not issue work, such as a synchronisation.
struct Blocking {
  Interval time;
  Cause cause = Cause::host_synchronization;
  Index call = kNone;
};

/// The times of the threads of a program, seen from the work that they issued.
class Host {
 public:
  explicit Host(Program const& program);

  /// Appends what the host did in `time` instead of issuing the work that `thread` issued after it:
  /// calls of that thread; between them, calls of other threads that issue work; gaps. The states
  /// are ascending and fill `time`.
  void append_states(Index thread, Interval time, std::vector<HostState>& states) const;

  /// Returns the last call of a thread that began before a time and in which it could not issue;
  /// null if there is none.
  [[nodiscard]] Blocking const* last_blocking(Index thread, Ns before) const;

  /// Returns the cause of time that a device lost while a call went on.
  [[nodiscard]] Cause cause_of_call(Index call) const { return causes_[call]; }
  /// Returns the first query of the loop in which a query waits by asking again; kNone if the call
  /// belongs to none.
  [[nodiscard]] Index poll_of(Index call) const {
    auto const found = polls_.find(call);
    return found == polls_.end() ? kNone : found->second;
  }
  /// Returns the call that took the time of a call: that of another thread for which the driver
  /// kept it waiting, or the first query of its loop; otherwise itself.
  [[nodiscard]] Index behind(Index call) const {
    auto const found = held_up_.find(call);
    auto const poll = poll_of(call);
    return found != held_up_.end() ? found->second : poll != kNone ? poll : call;
  }
  /// Returns the calls of a thread by their begin.
  [[nodiscard]] std::vector<Index> const& calls_of(Index thread) const {
    return threads_[thread].calls;
  }
  /// Returns whether a gap of a thread is so long that the host did something else than launching.
  [[nodiscard]] bool is_long_gap(Index thread, Interval gap) const;
  [[nodiscard]] bool initialises(Interval call) const;

 private:
  struct ThreadTime {
    std::vector<Index> calls;
    std::vector<Index> overheads;
    std::vector<Interval> operations;  ///< of frameworks; disjoint
    std::vector<Blocking> blocking;
    Ns long_gap = 0;
    Ns long_operation = 0;  ///< likewise of gaps that an operation of a framework covers
    bool issues = false;    ///< whether it issues work to a device
  };

  void judge_calls();
  void add_overheads();
  void judge_gaps();
  [[nodiscard]] Cause judge(ThreadTime const& thread, std::size_t place) const;
  [[nodiscard]] Cause judge_copy(Index call) const;
  void find_driver_calls();
  [[nodiscard]] Index held_up_by(Index call, Cause cause) const;
  [[nodiscard]] bool copies_before(ThreadTime const& thread, std::size_t place) const;
  [[nodiscard]] bool asks_again(Index before, Index call) const;
  void find_queues();
  [[nodiscard]] double queued_at(Ns time) const;
  /// The length from which on a launch waited for something.
  [[nodiscard]] Ns long_launch() const noexcept;
  [[nodiscard]] Ns long_loading() const noexcept;
  [[nodiscard]] bool queue_is_full(Index call) const;
  /// Whether a device still had work to do that had been issued before a time.
  [[nodiscard]] bool has_open_work(Ns at) const;
  void find_latest_ends();
  void append_calls(Index thread, Interval time, std::vector<HostState>& states) const;
  void append_gap(Index thread, Interval time, std::vector<HostState>& states) const;
  void lay_overheads(Index thread, Interval time, std::vector<HostState>& states) const;

  Program const& program_;
  std::vector<ThreadTime> threads_;
  std::vector<Cause> causes_;               ///< of calls
  std::unordered_map<Index, Index> polls_;  ///< by query, the first one of its loop
  /// By call, that of another thread for which the driver kept it waiting.
  std::unordered_map<Index, Index> held_up_;
  std::vector<Index> driver_calls_;  ///< that may keep other threads waiting; by their begin
  std::vector<bool> first_launches_;
  std::vector<Ns> issue_times_;  ///< of all activities, ascending
  /// As issue_times_, of the activities issued until then; empty if nothing asks for work.
  std::vector<Ns> latest_ends_;
  Ns usual_launch_ = 0;  ///< the length of a fast launch's call
  // The times at which calls issued work, and at which the first of it began; each ascending, and
  // empty once the calls are judged.
  std::vector<Ns> queued_;
  std::vector<Ns> begun_;
  double entries_ = 1;     ///< of the launch queue, for each call that issues work
  double full_queue_ = 0;  ///< the entries with which calls waited for long; 0 if none did
};

/// Returns whether a copy reads or writes pageable host memory.
[[nodiscard]] inline bool is_pageable(Activity const& activity) {
  return activity.kind == ActivityKind::copy &&
         (activity.source == MemoryKind::pageable || activity.target == MemoryKind::pageable);
}

/// Returns whether a copy reads a value rather than data: a small download.
[[nodiscard]] inline bool reads_value(Activity const& copy) {
  return copy.direction == CopyDirection::d2h && copy.bytes != kUnknown &&
         copy.bytes < tolerance::kSmallCopyBytes;
}

}  // namespace msstream::overlap
