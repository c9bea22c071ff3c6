// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/detail/any_runtime.hpp>
#include <msstream/serve/options.hpp>
#include <msstream/stream/stream_group.hpp>

#include <memory>
#include <vector>

namespace msstream::detail {

class AnyStreamPool;

/// The stream groups of a replica, without a runtime type: see serve::Branches<R>.
using AnyBranches = std::vector<std::shared_ptr<StreamGroup>>;

}  // namespace msstream::detail

namespace msstream::serve {

/// The stream groups of a replica of an InferencePool. The replica is launched on the first group.
template <Runtime R = DefaultRuntime>
using Branches = std::vector<StreamGroup<R>>;

/// The stream pools of all replicas: one pool for each branch. A replica has the same group number,
/// and therefore the same part of the device's multiprocessors, in each pool. If replicas are
/// captured, the groups of all branches but the first compute nothing themselves, and create
/// libraries only when needed.
template <Runtime R>
class BranchStreams;

template <>
class BranchStreams<detail::AnyRuntime> {
 public:
  BranchStreams(detail::AnyDevice const& device, InferencePoolOptions const& options, int replicas);

  [[nodiscard]] std::shared_ptr<detail::AnyStreamPool> const& first() const noexcept {
    return pools_.front();
  }
  [[nodiscard]] detail::AnyBranches of(int replica) const;

 private:
  std::vector<std::shared_ptr<detail::AnyStreamPool>> pools_;
};

template <Runtime R>
class BranchStreams : public BranchStreams<detail::AnyRuntime> {
  using Body = BranchStreams<detail::AnyRuntime>;

 public:
  BranchStreams(Device<R> const& device, InferencePoolOptions const& options, int replicas)
      : Body(device.engine(), options, replicas) {}

  [[nodiscard]] Branches<R> of(int replica) const {
    auto const groups = Body::of(replica);
    return Branches<R>(groups.begin(), groups.end());
  }
};

}  // namespace msstream::serve

namespace msstream::detail {

using AnyBranchStreams = serve::BranchStreams<AnyRuntime>;

/// Returns the stream groups without their runtime type.
template <Runtime R>
[[nodiscard]] AnyBranches untyped_branches(serve::Branches<R> const& branches) {
  AnyBranches groups;
  groups.reserve(branches.size());
  for (auto const& branch : branches) {
    groups.push_back(branch.share_engine());
  }
  return groups;
}

}  // namespace msstream::detail
