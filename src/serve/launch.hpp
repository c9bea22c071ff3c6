// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/pool_state.hpp"

namespace msstream::serve {

/// Launches slots on the device, each with the version of the model that is current at the launch.
class Launch {
 public:
  explicit Launch(PoolState& pool) : pool_(pool) {}

  /// Launches a slot, on the thread that owns the slot. Afterwards the poller owns the slot: in
  /// state launched, or in state stranded if the replica failed before anything was issued. An
  /// exception becomes the failure of the slot's queries; the failure of a device call also makes
  /// the replica fail. Launches on one replica run one at a time.
  void operator()(Slot& slot) noexcept;

 private:
  using State = Slot::State;

  void stage_waiting(Slot& slot) noexcept;
  State launch(Slot& slot, Replica& replica) noexcept;
  void issue(Slot& slot, Replica& replica, bool& has_issued);
  /// Makes the slot incomplete until all work issued for it is done, even though the model has
  /// thrown an exception, because that work uses the slot's buffers.
  void await_all_issued(Slot& slot, Replica& replica) noexcept;

  PoolState& pool_;
};

}  // namespace msstream::serve
