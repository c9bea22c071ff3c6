// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/driver_calls.hpp"
#include "serve/dispatcher.hpp"
#include "stream/doorbell.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace msstream::serve {

/// Launch threads, which launch slots that other threads have staged. Each thread has its own
/// replicas, so all launches of a replica come from one thread.
///
/// States: working; stopped, once no slot is staged any more. Ownership: the pool owns the threads;
/// they must not outlive the pool's state. Memory ordering: that of the slots' states, and of one
/// Doorbell for each thread.
class SlotLaunchers {
 public:
  /// Starts the launch threads. `spin` is the time for which a thread looks for more work before it
  /// sleeps.
  SlotLaunchers(PoolState& pool,
                Dispatcher& dispatcher,
                int threads,
                std::chrono::microseconds spin);
  SlotLaunchers(SlotLaunchers const&) = delete;
  SlotLaunchers& operator=(SlotLaunchers const&) = delete;
  ~SlotLaunchers() { stop(); }

 private:
  struct Worker {
    std::vector<Replica*> replicas;
    detail::Doorbell bell;
    std::thread thread;
  };

  void stop() noexcept;

  void work(Worker& worker) noexcept;
  /// Launches the slot that was staged first of each of the worker's replicas. Returns whether
  /// there was any.
  bool launch_staged(Worker& worker, detail::DriverCalls& calls) noexcept;

  Dispatcher& dispatcher_;
  RuntimeLife const life_;
  std::chrono::microseconds spin_;
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace msstream::serve
