// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/latency_histogram.hpp>

#include <cstdint>

namespace msstream::serve {

/// The numbers of queries by their outcome so far. Once a pool is drained, admitted = answered +
/// expired + failed.
struct PoolCounts {
  std::uint64_t admitted = 0;
  std::uint64_t answered = 0;
  std::uint64_t refused = 0;    ///< queries that were never admitted
  std::uint64_t expired = 0;    ///< queries whose deadline passed while they waited
  std::uint64_t failed = 0;     ///< queries that were displaced, or whose model or device threw
  std::uint64_t displaced = 0;  ///< queries removed from the full queue for one of higher priority
  std::uint64_t queued = 0;     ///< admitted queries that had to wait for a slot or for others
  std::uint64_t launches = 0;
  std::uint64_t moved = 0;            ///< launches that failed and were repeated on another replica
  std::uint64_t callbacks_threw = 0;  ///< callbacks that threw; the exceptions are dropped
  std::uint64_t captured_steps = 0;   ///< the captured steps of the current model
  std::uint64_t failed_captures = 0;  ///< of all models; these steps are issued anew each time
  int sound_replicas = 0;
  std::uint64_t version = 0;        ///< the number of the current model
  std::uint64_t poller_sleeps = 0;  ///< how often the poller has started to sleep
  std::uint64_t poller_sweeps = 0;  ///< how often the poller has looked at the launches in flight
};

/// The latencies of the answered queries.
struct PoolLatencies {
  LatencySummary queued = {};     ///< Answer::queued
  LatencySummary on_device = {};  ///< Answer::on_device; the sum of both is the latency
};

}  // namespace msstream::serve
