// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/dispatcher.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace msstream::serve {

/// The poller thread of a pool, which calls Dispatcher::sweep(): continuously while a launch is in
/// flight, otherwise when its bell is rung, or when a deadline or a batch is due. Between sweeps it
/// polls its bell for a while, and then sleeps.
///
/// States: working, stopped. Ownership: the pool's; it must not outlive the pool's state.
class Poller {
 public:
  /// Starts the poller thread. `spin` is the time for which the thread polls its bell before it
  /// sleeps.
  Poller(PoolState& pool, Dispatcher& dispatcher, std::chrono::microseconds spin);
  Poller(Poller const&) = delete;
  Poller& operator=(Poller const&) = delete;
  ~Poller();

 private:
  void work() noexcept;
  /// Waits until the bell is rung or the next sweep is due. First polls the bell for a while, if
  /// there are enough processors, so that a single client that submits again at once is served
  /// without waking a sleeping thread.
  void rest(std::uint64_t rung) noexcept;

  PoolState& pool_;
  Dispatcher& dispatcher_;
  std::chrono::microseconds spin_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace msstream::serve
