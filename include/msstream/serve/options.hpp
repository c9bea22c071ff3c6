// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/log_line.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/serve/query.hpp>
#include <msstream/stream/stream_pool_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace msstream::serve {

/// The options of an InferencePool. Which memory the replicas share is an option of the Device:
/// AllocatorOptions::mode for device memory, and AllocatorOptions::pinned_mode for pinned memory.
struct InferencePoolOptions {
  /// The fields that the model reads, in the order in which queries provide them.
  std::vector<Field> inputs = {};
  std::int64_t outputs_per_row = 1;  ///< columns of the model's result, at least 1

  /// The number of queries, or batches, that run concurrently, each on its own stream group: 1 to
  /// 255.
  int replicas = 4;
  /// The number of launches that a replica can have in flight, its slots: 1 to 64. With two, the
  /// next launch is ready on the device when one is complete.
  int depth = 2;
  /// The number of stream groups of a replica, 1 to 64, for operations that the model issues to
  /// `inputs.branch(i)` so that they run concurrently. In a capture, the groups are branches of one
  /// graph.
  int branches = 1;
  /// The buckets, ascending: the numbers of rows for which there are buffers and captured steps. A
  /// query runs in the smallest bucket that holds its rows and its lists. Queries with more rows
  /// than the largest bucket, or lists for which that has no room, are not accepted.
  std::vector<std::int64_t> buckets = {64};

  /// The number of queries that may wait for a replica with an idle slot; further queries are
  /// refused.
  std::size_t queue_capacity = 1024;
  /// The maximum time that queries wait to be launched together with others, up to the largest
  /// bucket, while a slot is idle. 0 disables batching.
  std::chrono::nanoseconds max_batch_delay{0};
  /// The waiting time after which the priority of a query is raised by one; after twice that time,
  /// by two. No query therefore waits for ever.
  std::chrono::nanoseconds ageing = std::chrono::milliseconds(100);

  /// Whether the model is captured for each replica and bucket, and replayed. If false, each launch
  /// issues the model's operations anew.
  bool capture = true;
  /// Whether a stream group of a replica has one stream for compute and copies, instead of three.
  bool merge_streams = true;
  StreamPriority stream_priority = StreamPriority::normal;  ///< of the replicas' streams
  /// The number of equal parts into which the device's multiprocessors are split. Replica i runs on
  /// part i mod `sm_partitions`; with 1, on all multiprocessors. See StreamPoolOptions.
  int sm_partitions = 1;
  /// Selects the threads that launch. none: the threads that call submit(), and the poller, which
  /// also launches queries that waited; shared: a few threads; per_group: one thread for each
  /// replica.
  LaunchThreads launch_threads = LaunchThreads::none;
  /// The number of threads of LaunchThreads::shared; 0 chooses 4. There are never more than
  /// replicas.
  int launch_thread_count = 0;
  /// The microseconds for which the poller, or a launch thread, looks for more work before it
  /// sleeps. -1 chooses 200 if the machine has more processors than launch threads plus the poller,
  /// otherwise 0.
  int launch_spin_us = -1;

  /// A function that receives a line of text for each capture that fails.
  std::function<void(std::string const&)> log = detail::log_line;

  /// Returns `*this`. If an option is out of range, throws std::invalid_argument with the option's
  /// name and its accepted values.
  [[nodiscard]] InferencePoolOptions const& checked() const;
  /// Returns the number of launch threads of all replicas together.
  [[nodiscard]] int launch_thread_total() const noexcept;
  /// Returns how long a launch thread looks for work before it sleeps, as the options say.
  [[nodiscard]] std::chrono::microseconds launch_spin() const noexcept;
};

}  // namespace msstream::serve
