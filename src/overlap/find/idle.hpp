// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/hold.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"

#include <vector>

namespace msstream::overlap {

/// Charges the time in which a device does nothing, by what held its next activity.
///
/// A call in which the host could not issue counts longer than it lasted: the host was ahead of the
/// device and lost its lead. Idle time after the call is charged to it as well, until the sum is
/// the length of the call, in place of slow launches and of other work of the host.
class IdleTime {
 public:
  IdleTime(Program const& program, Host const& host, Holds const& holds, Interval window);

  /// Charges one interval, in ascending order. `next` is the activity that ends it; kNone if none
  /// follows.
  void charge(Interval time, Index next, Ledger& ledger);

 private:
  struct Lead {
    Ns begin = 0;  ///< of the call
    Ns left = 0;
  };

  void charge_host(Interval time, Index next, Ledger& ledger);
  [[nodiscard]] bool has_others(Index device) const;
  [[nodiscard]] Interval turn_of_others(Interval time, Index device) const;
  void charge_rest(Interval time, Index next, Ledger& ledger) const;
  void add_state(HostState const& state, Blocking const* blocking, Index next, Ledger& ledger);

  Program const& program_;
  Host const& host_;
  Holds const& holds_;
  std::vector<Lead> leads_;  ///< of each thread
  std::vector<HostState> states_;
  Index main_thread_ = 0;  ///< the thread of the window's first call
};

}  // namespace msstream::overlap
