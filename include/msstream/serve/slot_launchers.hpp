// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/start_thread.hpp>
#include <msstream/serve/dispatcher.hpp>
#include <msstream/serve/rung_soon.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

namespace msstream::serve {

/// Threads that launch slots staged by other threads. Each thread launches the slots of its own
/// replicas, so the launches of a replica come from one thread.
///
/// States: working; stopped, once nothing is staged any more. Ownership: the pool's; they must not
/// outlive the pool's state. Memory ordering: that of the slots' states, and of one Doorbell for
/// each thread.
template <Runtime R>
class SlotLaunchers {
 public:
  /// Starts the threads. `spin` is the time for which a thread looks for more work before it
  /// sleeps.
  SlotLaunchers(PoolState<R>& pool,
                Dispatcher<R>& dispatcher,
                int threads,
                std::chrono::microseconds spin)
      : dispatcher_(dispatcher), spin_(spin) {
    for (int i = 0; i < threads; ++i) {
      workers_.push_back(std::make_unique<Worker>());
    }
    std::size_t next = 0;
    for (auto const& replica : pool.replicas) {
      if (threads > 0) {
        auto& worker = *workers_[next++ % workers_.size()];
        worker.replicas.push_back(replica.get());
        replica->launch_bell = &worker.bell;
      }
    }
    try {
      for (auto const& worker : workers_) {
        worker->thread =
            start_thread("launches of an inference pool", [this, &its = *worker] { work(its); });
      }
    } catch (...) {  // the system cannot start more threads
      stop();
      throw;
    }
  }
  SlotLaunchers(SlotLaunchers const&) = delete;
  SlotLaunchers& operator=(SlotLaunchers const&) = delete;
  ~SlotLaunchers() { stop(); }

 private:
  struct Worker {
    std::vector<Replica<R>*> replicas;
    detail::Doorbell bell;
    std::thread thread;
  };

  void stop() noexcept {
    stopping_.store(true);
    for (auto const& worker : workers_) {
      worker->bell.ring_for_all();
      if (worker->thread.joinable()) {
        worker->thread.join();
      }
    }
  }

  void work(Worker& worker) noexcept {
    while (true) {
      auto const rung = worker.bell.rung();
      bool const stopping = stopping_.load();
      if (launch_staged(worker)) {
        continue;
      }
      if (stopping) {
        return;
      }
      bool const looks = spin_ != std::chrono::microseconds::zero();
      if (!looks || !is_rung_before(worker.bell, rung, Clock::now() + spin_)) {
        worker.bell.sleep(rung);
      }
    }
  }
  /// Launches, of each replica, the slot that was staged first. Returns whether there was any.
  bool launch_staged(Worker& worker) noexcept {
    bool found = false;
    for (auto* const replica : worker.replicas) {
      if (auto* const slot = replica->first(Slot<R>::State::staged)) {
        dispatcher_.launch(*slot);
        found = true;
      }
    }
    return found;
  }
  Dispatcher<R>& dispatcher_;
  std::chrono::microseconds spin_;
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace msstream::serve
