// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>
#include <msstream/serve/field.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace msstream::serve {

/// How a model is served. What memory is shared among replicas the Device says:
/// AllocatorOptions::mode for device memory, pinned_mode for pinned.
struct InferencePoolOptions {
  /// What the model reads, in the order in which queries bring it.
  std::vector<Field> inputs = {};
  std::int64_t outputs_per_row = 1;

  /// How many queries, or batches, run side by side: 1 to 255, each on a stream group of its own.
  int replicas = 4;
  /// How many may be launched on a replica at once: 1 to 64. With two, one is there when the other
  /// is over.
  int depth = 2;
  /// Stream groups a replica, 1 to 64: for operations that the model puts on `inputs.branch(i)`, to
  /// run beside each other. Captured, they are branches of one graph.
  int branches = 1;
  /// For how many rows there are buffers and captured steps, ascending: a query runs in the least
  /// that holds it. Those above the largest are not accepted.
  std::vector<std::int64_t> buckets = {64};

  /// How many queries may wait for a slot; those that come then are refused.
  std::size_t queue_capacity = 1024;
  /// Above 0: queries wait for others to be launched together with, up to the largest bucket, and
  /// at most so long while a slot is idle.
  std::chrono::nanoseconds max_batch_delay{0};
  /// A query that has waited so long goes as if it had the next higher priority, one that has
  /// waited twice as long the one after that: so nothing waits for ever.
  std::chrono::nanoseconds ageing = std::chrono::milliseconds(100);

  /// Off: each launch issues the model's operations anew.
  bool capture = true;
  /// One stream a replica, not three.
  bool merge_streams = true;
  StreamPriority stream_priority = StreamPriority::normal;
  /// Into how many equal parts the device's multiprocessors are split: replica i runs on part i mod
  /// so many. 1: on all. See StreamPoolOptions.
  int sm_partitions = 1;
  /// Who launches. none: who submits, and for queries that waited the poller; shared: a few
  /// threads; per_group: one a replica.
  LaunchThreads launch_threads = LaunchThreads::none;
  /// Threads of LaunchThreads::shared; 0 chooses min(replicas, 4).
  int launch_thread_count = 0;
  /// Microseconds for which the poller, or a launch thread, looks for more before it sleeps; -1:
  /// 200 if the machine has more processors than there are launch threads and a poller, else none.
  int launch_spin_us = -1;

  /// Gets a line for each capture that fails.
  std::function<void(std::string const&)> log = [](std::string const& line) {
    std::clog << line << std::endl;
  };

  /// Throws std::invalid_argument that names the option and what it accepts; returns itself.
  [[nodiscard]] InferencePoolOptions const& checked() const;
  /// Of all replicas together.
  [[nodiscard]] int launch_thread_total() const noexcept;
  [[nodiscard]] std::chrono::microseconds launch_spin() const noexcept;
};

}  // namespace msstream::serve
