// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/memory/capture_memory.hpp>
#include <msstream/memory/device.hpp>

#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

namespace msstream {

/// Memory for what captured steps make inside, which they use by turns: together they take as much
/// as the one that needs most, and one workspace a group for the libraries, not all of it for each.
///
///     StepMemory memory(device);
///     CapturedStep small(device, [&] { train(batch_of_256); }, memory);
///     CapturedStep large(device, [&] { train(batch_of_4096); }, memory);
///
/// Steps that share it do not run beside each other: each replay comes after the one before,
/// whosever that was. A tensor that is made inside and lives on is its step's alone, and its memory
/// stays taken until the last of the steps and copies of this has gone. A copy is the same memory.
/// Thread-safe, but for captures: std::logic_error when two threads capture in it at once.
template <CapturingRuntime R = DefaultRuntime>
class StepMemory {
 public:
  explicit StepMemory(Device<R> const& device) : StepMemory(device, kGrowthBytes, nullptr) {}
  /// Of steps that are replayed on this group, whatever the current one is: what they issue to it
  /// uses its own workspace. Throws std::invalid_argument for a group of another device.
  StepMemory(Device<R> const& device, StreamGroup<R>& group)
      : StepMemory(device, kGrowthBytes, checked(device, group)) {}

 private:
  template <CapturingRuntime>
  friend class CapturedStep;
  using Shared = memory::CaptureMemory<R>;

  /// Who shares memory wants little of it; a step alone rather has what needs no wait.
  static constexpr std::size_t kGrowthBytes = std::size_t{2} << 20U;

  StepMemory(Device<R> const& device,
             std::size_t growth_bytes,
             std::shared_ptr<StreamGroup<R>> group)
      : memory_(std::make_shared<Shared>(device.context(),
                                         device.state()->memory.make_private_pools(growth_bytes),
                                         std::move(group))) {}
  static std::shared_ptr<StreamGroup<R>> checked(Device<R> const& device, StreamGroup<R>& group) {
    require(group.context() == device.context() && !group.captured(),
            "StepMemory: ",
            group.name(),
            " is of another device, or of a capture; expected a group of the device itself");
    return group.shared_from_this();
  }
  static StepMemory of_one(Device<R> const& device) {
    return {device, std::numeric_limits<std::size_t>::max(), nullptr};
  }

  std::shared_ptr<Shared> memory_;
};

template <Runtime R>
StepMemory(Device<R> const&) -> StepMemory<R>;
template <Runtime R>
StepMemory(Device<R> const&, StreamGroup<R>&) -> StepMemory<R>;

}  // namespace msstream
