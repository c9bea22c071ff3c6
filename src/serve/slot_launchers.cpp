// SPDX-License-Identifier: Apache-2.0
#include "serve/slot_launchers.hpp"

#include "serve/rung_soon.hpp"

#include <msstream/base/detail/start_thread.hpp>

#include <cstddef>

namespace msstream::serve {

SlotLaunchers::SlotLaunchers(PoolState& pool,
                             Dispatcher& dispatcher,
                             int threads,
                             std::chrono::microseconds spin)
    : dispatcher_(dispatcher), life_(pool.context->tracker->life()), spin_(spin) {
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
      worker->thread = detail::start_thread("launches of an inference pool",
                                            [this, &its = *worker] { work(its); });
    }
  } catch (...) {  // the system cannot start more threads
    stop();
    throw;
  }
}

void SlotLaunchers::stop() noexcept {
  stopping_.store(true);
  for (auto const& worker : workers_) {
    worker->bell.ring_for_all();
    if (worker->thread.joinable()) {
      worker->thread.join();
    }
  }
}

void SlotLaunchers::work(Worker& worker) noexcept {
  detail::DriverCalls calls(life_);
  while (true) {
    auto const rung = worker.bell.rung();
    bool const stopping = stopping_.load();
    if (launch_staged(worker, calls)) {
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

bool SlotLaunchers::launch_staged(Worker& worker, detail::DriverCalls& calls) noexcept {
  bool found = false;
  for (auto* const replica : worker.replicas) {
    if (auto* const slot = replica->first(Slot::State::staged)) {
      detail::DriverCalls::Inside const inside(calls);
      dispatcher_.launch(*slot);
      found = true;
    }
  }
  return found;
}

}  // namespace msstream::serve
