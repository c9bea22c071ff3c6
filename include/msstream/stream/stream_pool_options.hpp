// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/env.hpp>
#include <msstream/base/detail/log_line.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace msstream {

/// Selects the threads that launch operations. none: the thread that issues them; shared: a few
/// threads for all groups; per_group: one thread for each group.
enum class LaunchThreads : std::uint8_t { none, shared, per_group };

/// The ways in which StreamPool::acquire() chooses a group. least_loaded: the fewest leases, then
/// the least outstanding work; sticky: the group that the calling thread had before, at first the
/// least loaded one.
enum class LeasePolicy : std::uint8_t { least_loaded, round_robin, sticky };

struct StreamPoolOptions {
  /// The time when a stream group's library handles are created, which takes memory from the
  /// driver. at_once: together with the group; when_needed: at their first use, which may wait for
  /// work in flight.
  enum class LibrariesMade : std::uint8_t { at_once, when_needed };

  /// The number of groups, from 1.
  int groups = static_cast<int>(env::integer("MSSTREAM_STREAM_GROUPS", 1, 1, 256));
  /// Whether a group has one stream for kernels and copies, instead of three.
  bool merge_streams = env::flag("MSSTREAM_MERGE_STREAMS", false);
  StreamPriority priority = StreamPriority::normal;  ///< of the streams of all groups
  /// The number of equal parts into which the device's multiprocessors are split. The kernels of
  /// group i run on part i mod `sm_partitions`; with 1, on all multiprocessors. Has no effect on a
  /// runtime without multiprocessors.
  int sm_partitions = static_cast<int>(env::integer("MSSTREAM_SM_PARTITIONS", 1, 1, 256));
  /// The least number of multiprocessors that kernels of the groups leave to others, such as the
  /// collectives of a communicator. Has no effect on a runtime without multiprocessors.
  int spared_sms = static_cast<int>(env::integer("MSSTREAM_SPARED_SMS", 0, 0, 1024));
  /// The threads that launch operations: the calling one, shared ones, or one for each group.
  LaunchThreads launch_threads = env::choice("MSSTREAM_LAUNCH_THREADS",
                                             LaunchThreads::none,
                                             {{"none", LaunchThreads::none},
                                              {"shared", LaunchThreads::shared},
                                              {"per_group", LaunchThreads::per_group}});
  /// The number of threads of LaunchThreads::shared; 0 chooses min(groups, 4).
  int launch_thread_count =
      static_cast<int>(env::integer("MSSTREAM_LAUNCH_THREAD_COUNT", 0, 0, 64));
  /// The microseconds for which a launch thread looks for more work before it sleeps. -1 chooses
  /// 200 if the machine has more processors than the pool has launch threads, otherwise 0.
  int launch_spin_us = static_cast<int>(env::integer("MSSTREAM_LAUNCH_SPIN_US", -1, -1, 1'000'000));
  /// The time when groups create their library handles, which have a workspace. when_needed is for
  /// groups that may never compute.
  LibrariesMade libraries = LibrariesMade::at_once;
  LeasePolicy policy = LeasePolicy::least_loaded;  ///< how acquire() chooses a group
  /// The assignment of operations to groups by operation name, which takes precedence over every
  /// StreamScope.
  std::optional<StreamAssignment> assignment = StreamAssignment::from_environment(groups);
  /// Whether an operation outside every StreamScope goes to the group that last wrote one of its
  /// inputs: the first input whose last writer is a group of the pool.
  bool propagate_groups = env::flag("MSSTREAM_PROPAGATE_GROUPS", false);
  /// A function that receives a sentence, when the pool is destroyed, for each line of the
  /// assignment that matched no operation. If null, nothing is reported.
  std::function<void(std::string const&)> log = detail::log_line;
};

}  // namespace msstream
