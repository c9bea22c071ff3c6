// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/dispatcher.hpp>

#include <atomic>
#include <thread>

namespace msstream::serve {

/// The thread that sweeps: without pause while something is in flight, else when it is rung for, or
/// when a deadline or a batch is due; it sleeps in between.
///
/// States: working, stopped. Ownership: the pool's, whose state it must not outlive.
template <Runtime R>
class Poller {
 public:
  Poller(PoolState<R>& pool, Dispatcher<R>& dispatcher)
      : pool_(pool), dispatcher_(dispatcher), thread_([this] { work(); }) {}
  Poller(Poller const&) = delete;
  Poller& operator=(Poller const&) = delete;
  ~Poller() {
    stopping_.store(true);
    pool_.bell.ring_for_all();
    thread_.join();
  }

  /// Whether it is the calling thread.
  [[nodiscard]] bool is_this_thread() const noexcept {
    return std::this_thread::get_id() == thread_.get_id();
  }

 private:
  void work() noexcept {
    while (true) {
      auto const rung = pool_.bell.rung();
      if (dispatcher_.sweep()) {
        std::this_thread::yield();  // for those who launch, where there are few processors
        continue;
      }
      if (stopping_.load()) {
        return;
      }
      auto const next = dispatcher_.next_sweep_at();
      if (next == Clock::time_point::max()) {
        pool_.bell.sleep(rung);
      } else if (next > Clock::now()) {
        pool_.bell.sleep_until(rung, next);
      }
    }
  }

  PoolState<R>& pool_;
  Dispatcher<R>& dispatcher_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace msstream::serve
