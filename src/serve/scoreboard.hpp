// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/pool_counts.hpp>

#include <atomic>
#include <cstdint>

namespace msstream::serve {

/// A counter that many threads increment. It has its own cache line.
class alignas(64) Counter {
 public:
  void add() noexcept { value_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// The counters from which PoolCounts and PoolLatencies are made. Thread-safe, with relaxed memory
/// ordering throughout.
struct Scoreboard {
  Counter admitted;
  Counter refused;
  Counter queued;
  // Counters that mostly the poller thread increments.
  Counter answered;
  Counter expired;
  Counter failed;
  Counter displaced;
  Counter launches;
  Counter moved;
  Counter callbacks_threw;
  Counter sweeps;
  LatencyHistogram queue_times;
  LatencyHistogram device_times;

  [[nodiscard]] PoolCounts counts() const noexcept {
    return {.admitted = admitted.value(),
            .answered = answered.value(),
            .refused = refused.value(),
            .expired = expired.value(),
            .failed = failed.value(),
            .displaced = displaced.value(),
            .queued = queued.value(),
            .launches = launches.value(),
            .moved = moved.value(),
            .callbacks_threw = callbacks_threw.value(),
            .poller_sweeps = sweeps.value()};
  }
  [[nodiscard]] PoolLatencies latencies() const noexcept {
    return {queue_times.summary(), device_times.summary()};
  }
};

}  // namespace msstream::serve
