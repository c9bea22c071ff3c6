// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/dispatcher.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace msstream::serve {

/// The thread that calls Dispatcher::sweep(): without pause while a launch is in flight, otherwise
/// when its bell is rung, or when a deadline or a batch is due. In between it polls its bell for a
/// while, and then sleeps.
///
/// States: working, stopped. Ownership: the pool's; it must not outlive the pool's state.
class Poller {
 public:
  /// Starts the thread. `spin` is the time for which it polls its bell before it sleeps.
  Poller(PoolState& pool, Dispatcher& dispatcher, std::chrono::microseconds spin);
  Poller(Poller const&) = delete;
  Poller& operator=(Poller const&) = delete;
  ~Poller();

 private:
  void work() noexcept;
  /// Waits until the bell is rung or the next sweep is due. If there are enough processors, polls
  /// at first: one client that submits again at once is then served without waking a thread.
  void rest(std::uint64_t rung) noexcept;

  PoolState& pool_;
  Dispatcher& dispatcher_;
  std::chrono::microseconds spin_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace msstream::serve
