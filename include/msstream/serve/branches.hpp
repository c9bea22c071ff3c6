// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/serve/options.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace msstream::serve {

/// The stream groups of a replica. The replica is launched on the first one.
template <Runtime R = DefaultRuntime>
using Branches = std::vector<StreamGroup<R>>;

/// The streams of all replicas: one pool for each branch, so that a replica has the same number,
/// and therefore the same part of the device, in each pool. If replicas are captured, the groups of
/// all branches but the first compute nothing themselves, and create libraries only when needed.
template <Runtime R>
class BranchStreams {
 public:
  BranchStreams(Device<R> const& device, InferencePoolOptions const& options, int replicas) {
    bool const is_captured = CapturingRuntime<R> && options.capture;
    pools_.reserve(static_cast<std::size_t>(options.branches));
    for (int i = 0; i < options.branches; ++i) {
      pools_.push_back(std::make_unique<StreamPool<R>>(
          device,
          StreamPoolOptions{.groups = replicas,
                            .merge_streams = options.merge_streams,
                            .priority = options.stream_priority,
                            .sm_partitions = options.sm_partitions,
                            .launch_threads = LaunchThreads::none,
                            .launch_thread_count = 0,
                            .libraries = is_captured && i > 0 ? LibrariesMade::when_needed
                                                              : LibrariesMade::at_once,
                            .assignment = std::nullopt,
                            .propagate_groups = false}));
    }
  }

  [[nodiscard]] StreamPool<R> const& first() const noexcept { return *pools_.front(); }
  [[nodiscard]] Branches<R> of(int replica) const {
    Branches<R> branches;
    branches.reserve(pools_.size());
    for (auto const& pool : pools_) {
      branches.push_back((*pool)[replica]);
    }
    return branches;
  }

 private:
  std::vector<std::unique_ptr<StreamPool<R>>> pools_;
};

}  // namespace msstream::serve
