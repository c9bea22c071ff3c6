// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/collectives.hpp"
#include "overlap/find/hold.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/shared_streams.hpp"

#include <span>
#include <vector>

namespace msstream::overlap {

/// Charges the time in which a device runs one activity, by what held work that could have run
/// beside it: the next activity of each other stream, and of its own stream those that are known
/// not to need it.
class AloneTime {
 public:
  AloneTime(Program const& program,
            Host const& host,
            Collectives const& collectives,
            Holds const& holds,
            SharedStreams const& shared,
            Index device,
            CauseSet const& harmless);

  /// Charges one interval, in ascending order.
  void charge(Interval time, Index running, Ledger& ledger);

 private:
  [[nodiscard]] bool waits_for_held(Charge const& offered) const;
  void offer_stream(Interval time, Index running, Index held);
  [[nodiscard]] bool is_step(Index held, Index running) const;
  void offer_without_calls(Interval time, Index running, Index held);
  void offer_host(Interval time, Index running, Index held);
  void offer_own_stream(Interval time, Index running);
  [[nodiscard]] Index apart_behind(Index running, Ns until) const;
  void offer_own_copy(Interval time, Index running);
  void offer_other_direction(Interval time, Index running);
  [[nodiscard]] bool is_turn(Index first, Index second) const;
  [[nodiscard]] bool is_opposite(Index i, Index copy) const;
  [[nodiscard]] Index before_downloads(Index copy) const;
  [[nodiscard]] Index behind_uploads(Index copy) const;
  [[nodiscard]] Ns kernels_since(Index copy) const;
  [[nodiscard]] Ns kernels_until(Index copy) const;
  void offer_peers(Interval time, Index running);
  void offer(Charge charge, Interval within);
  [[nodiscard]] bool from_threads_at_once(Index first, Index second) const;

  Program const& program_;
  Host const& host_;
  Collectives const& collectives_;
  Holds const& holds_;
  SharedStreams const& shared_;
  Index device_;
  CauseSet const& harmless_;
  NextActivities next_;
  std::span<Index const> queued_;  ///< the next activities of the streams
  std::vector<Charge> offers_;
  std::vector<HostState> states_;
  std::vector<Ns> borders_;
};

}  // namespace msstream::overlap
