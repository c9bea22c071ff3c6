// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/cause.hpp"
#include "overlap/find/collectives.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"

#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace msstream::overlap {

/// Why an activity that was issued did not run beside another one.
struct Hold {
  std::optional<Cause> cause;  ///< empty if it needs what ran, or what ran before that
  Index wait = kNone;          ///< in Recording::syncs, if a wait held it
  /// The activity behind the one that ran in its stream, if the held activity waited for that.
  Index queued = kNone;
  Missing missing = Missing::nothing;
  bool is_guess = false;  ///< whether it may need what ran: only the order of the work speaks
  /// From when on it lost time: a copy that waits for a long step loses no more than it takes.
  Ns from = std::numeric_limits<Ns>::min();
};

[[nodiscard]] inline bool is_copy(Activity const& activity, CopyDirection direction) {
  return activity.kind == ActivityKind::copy && activity.direction == direction;
}

/// Finds what held issued activities while one other activity ran.
class Holds {
 public:
  Holds(Program const& program, Collectives const& collectives);

  /// Returns why `held`, which is issued and next in its stream, had not begun at `at`, while
  /// `running`, of another stream, ran alone. Empty if nothing held it at that time. `queued` are
  /// the next activities of all streams.
  [[nodiscard]] std::optional<Hold> of(Index held,
                                       Index running,
                                       Ns at,
                                       std::span<Index const> queued) const;

  /// Returns whether `after` does not need `before`, which is in the same stream: true only with
  /// evidence.
  [[nodiscard]] bool independent(Index before, Index after) const;
  /// Returns what the thread that issued an activity put into its streams right before, and of
  /// which the recording does not tell for what it waited; nothing if there was nothing such.
  [[nodiscard]] Missing unseen_wait(Index held) const;
  /// Returns what an activity seems to need of what it waits for, if that is less than all; kNone
  /// if it seems to need nothing of it.
  [[nodiscard]] Index needed_of(Wait const& wait, Index held) const;
  /// Returns the copies that wait for the tail of a stream as `held` does, which is the first of
  /// them: those behind it in its stream, of which each may have a wait of its own.
  [[nodiscard]] std::vector<Index> waiting_with(Wait const& wait, Index held) const;
  /// Returns the waits that a stream made again for a collective for which it had waited, with work
  /// between the two.
  [[nodiscard]] std::span<Index const> joins_again(Index collective) const;
  /// Returns whether an activity waits for another one through waits, or may do so unknown to the
  /// recording.
  [[nodiscard]] bool may_wait(Index held, Index running, Ns at) const;

 private:
  [[nodiscard]] std::optional<Hold> by_waits(Index held, Index running, Ns at) const;
  [[nodiscard]] Hold by_wait(Wait const& wait, Index held, Index running) const;
  [[nodiscard]] bool needs_only_memory(Wait const& wait, Index held, Index running) const;
  [[nodiscard]] Hold by_tail(Wait const& wait, Index held) const;
  [[nodiscard]] bool has_two_buffers(Wait const& wait, Index held) const;
  [[nodiscard]] Hold by_needed(Wait const& wait, Index held, Index running) const;
  [[nodiscard]] bool are_one_exchange(Index first, Index second) const;
  [[nodiscard]] bool may_be_urgent(Index first, Index second, Index held) const;
  [[nodiscard]] Hold by_queue(Index target, Index running, Index held) const;
  [[nodiscard]] bool by_legacy_stream(Index held, Index running) const;
  [[nodiscard]] bool may_be_legacy(Index stream) const;
  [[nodiscard]] std::optional<Hold> by_resources(Index held,
                                                 Index running,
                                                 std::span<Index const> queued) const;
  [[nodiscard]] Index recorded_late(Wait const& wait, Index held) const;
  [[nodiscard]] bool has_nothing_beside(Index held, Index target) const;
  [[nodiscard]] bool host_waited(Index activity, Ns since, Ns by) const;
  [[nodiscard]] bool host_joined(Index first, Index second, Ns by) const;
  [[nodiscard]] bool is_for_the_tail(Wait const& wait) const;
  [[nodiscard]] bool recorded_twice(Wait const& wait, Index running) const;
  [[nodiscard]] bool wait_in_turns(Index held, Index running) const;
  [[nodiscard]] bool is_turn(Index before, Index after) const;
  [[nodiscard]] bool are_kernels(Index held, Index running) const;
  [[nodiscard]] bool follows(Index held, Index running) const;
  [[nodiscard]] bool needs_by_kind(Index after, Index before) const;
  [[nodiscard]] bool followed_what_it_needs(Index held) const;

  Program const& program_;
  Collectives const& collectives_;
  /// By the call of a record: the call of the record before it of the same event and stream.
  std::unordered_map<Index, Index> record_before_;
  std::unordered_map<Index, bool> is_waited_for_;  ///< calls of records
  /// Collectives for which a stream waits that needs nothing behind them.
  std::unordered_set<Index> joined_;
  std::unordered_map<Index, std::vector<Index>> joined_again_;   ///< by collective, the waits
  std::unordered_map<std::int64_t, std::int64_t> first_stream_;  ///< of contexts, its number
  std::unordered_map<Index, Ns> used_;  ///< of uploads, when the first work that waits was issued
  std::vector<Index> host_waits_;  ///< waits of the host for a stream or an event, by their end
};

}  // namespace msstream::overlap
