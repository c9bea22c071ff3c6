// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/latency_histogram.hpp>

#include <cstdint>

namespace msstream::serve {

/// What became of the queries so far. Once a pool is drained, admitted = answered + expired +
/// failed.
struct PoolCounts {
  std::uint64_t admitted = 0;
  std::uint64_t answered = 0;
  std::uint64_t refused = 0;    ///< never admitted
  std::uint64_t expired = 0;    ///< their deadline passed while they waited
  std::uint64_t failed = 0;     ///< by an exception of the model or of the device, or displaced
  std::uint64_t displaced = 0;  ///< whose place in the full queue went to one of higher priority
  std::uint64_t queued = 0;     ///< of those admitted, such as had to wait for a slot or for others
  std::uint64_t launches = 0;
  std::uint64_t moved = 0;            ///< launches that failed, and were made on another replica
  std::uint64_t callbacks_threw = 0;  ///< what they threw is dropped
  std::uint64_t captured_steps = 0;   ///< of the current model
  std::uint64_t failed_captures = 0;  ///< of all models: what could not be captured is issued
  int sound_replicas = 0;
  std::uint64_t version = 0;        ///< of the current model
  std::uint64_t poller_sleeps = 0;  ///< how often the poller has gone to sleep
  std::uint64_t poller_sweeps = 0;  ///< how often it has looked at what is in flight
};

/// Of the queries answered.
struct PoolLatencies {
  LatencySummary queued = {};     ///< Answer::queued
  LatencySummary on_device = {};  ///< Answer::on_device; both together are the latency
};

}  // namespace msstream::serve
