// SPDX-License-Identifier: Apache-2.0
#include <msstream/serve/detail/branches.hpp>
#include <msstream/stream/detail/any_stream_pool.hpp>

#include <cstddef>
#include <optional>

namespace msstream::serve {

BranchStreams<detail::AnyRuntime>::BranchStreams(detail::AnyDevice const& device,
                                                 InferencePoolOptions const& options,
                                                 int replicas) {
  bool const is_captured = device.backend().traits.captures && options.capture;
  pools_.reserve(static_cast<std::size_t>(options.branches));
  for (int i = 0; i < options.branches; ++i) {
    pools_.push_back(std::make_shared<detail::AnyStreamPool>(
        device.context(),
        StreamPoolOptions{.groups = replicas,
                          .merge_streams = options.merge_streams,
                          .priority = options.stream_priority,
                          .sm_partitions = options.sm_partitions,
                          .launch_threads = LaunchThreads::none,
                          .launch_thread_count = 0,
                          .libraries = is_captured && i > 0
                                           ? StreamPoolOptions::LibrariesMade::when_needed
                                           : StreamPoolOptions::LibrariesMade::at_once,
                          .assignment = std::nullopt,
                          .propagate_groups = false}));
  }
}

detail::AnyBranches BranchStreams<detail::AnyRuntime>::of(int replica) const {
  detail::AnyBranches branches;
  branches.reserve(pools_.size());
  for (auto const& pool : pools_) {
    branches.push_back(pool->group(replica));
  }
  return branches;
}

}  // namespace msstream::serve
