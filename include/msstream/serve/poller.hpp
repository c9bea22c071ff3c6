// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/start_thread.hpp>
#include <msstream/serve/dispatcher.hpp>
#include <msstream/serve/rung_soon.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

namespace msstream::serve {

/// The thread that calls Dispatcher::sweep(): without pause while a launch is in flight, otherwise
/// when its bell is rung, or when a deadline or a batch is due. In between it polls its bell for a
/// while, and then sleeps.
///
/// States: working, stopped. Ownership: the pool's; it must not outlive the pool's state.
template <Runtime R>
class Poller {
 public:
  /// Starts the thread. `spin` is the time for which it polls its bell before it sleeps.
  Poller(PoolState<R>& pool, Dispatcher<R>& dispatcher, std::chrono::microseconds spin)
      : pool_(pool),
        dispatcher_(dispatcher),
        spin_(spin),
        thread_(start_thread("the poller of an inference pool", [this] { work(); })) {}
  Poller(Poller const&) = delete;
  Poller& operator=(Poller const&) = delete;
  ~Poller() {
    stopping_.store(true);
    pool_.bell.ring_for_all();
    thread_.join();
  }

 private:
  void work() noexcept {
    std::uint64_t heard = 0;
    while (true) {
      auto const rung = pool_.bell.rung();
      if (dispatcher_.sweep(rung != std::exchange(heard, rung))) {
        std::this_thread::yield();  // lets launching threads run if there are few processors
        continue;
      }
      if (stopping_.load()) {
        return;
      }
      rest(rung);
    }
  }
  /// Waits until the bell is rung or the next sweep is due. If there are enough processors, polls
  /// at first: one client that submits again at once is then served without waking a thread.
  void rest(std::uint64_t rung) noexcept {
    auto const next = dispatcher_.next_sweep_at();
    auto const now = Clock::now();
    auto const awake_until = std::min<Clock::time_point>(now + spin_, next);
    if (next <= now || (spin_.count() != 0 && is_rung_before(pool_.bell, rung, awake_until))) {
      return;
    }
    if (next == Clock::time_point::max()) {
      pool_.bell.sleep(rung);
    } else {
      pool_.bell.sleep_until(rung, next);
    }
  }

  PoolState<R>& pool_;
  Dispatcher<R>& dispatcher_;
  std::chrono::microseconds spin_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace msstream::serve
