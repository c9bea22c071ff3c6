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

/// Memory that captured steps share for the tensors that they create inside. The steps take as much
/// memory together as the step that needs most, and one workspace per group for the libraries,
/// instead of the sum over all steps.
///
///     StepMemory memory(device);
///     CapturedStep small(device, [&] { train(batch_of_256); }, memory);
///     CapturedStep large(device, [&] { train(batch_of_4096); }, memory);
///
/// Steps that share memory do not run concurrently: each replay is ordered after the previous
/// replay of any of them. A tensor that is created inside a step and lives on belongs to that step
/// alone; its memory stays allocated until the last of the steps and of the copies of this object
/// is destroyed. Copies refer to the same memory. Thread-safe except for captures: throws
/// std::logic_error if two threads capture in the memory at once.
template <CapturingRuntime R = DefaultRuntime>
class StepMemory {
 public:
  explicit StepMemory(Device<R> const& device) : StepMemory(device, kGrowthBytes, nullptr) {}
  /// Makes memory for steps that are always replayed on `group`, whatever the current group is.
  /// Operations that they issue to this group use its own library workspace. Throws
  /// std::invalid_argument for a group of another device.
  StepMemory(Device<R> const& device, StreamGroup<R>& group)
      : StepMemory(device, kGrowthBytes, checked(device, group)) {}

 private:
  template <CapturingRuntime>
  friend class CapturedStep;
  using Shared = memory::CaptureMemory<R>;

  /// The most bytes that shared memory reserves at a time, which keeps it small. The memory of a
  /// single step has no such limit, because larger reservations avoid waits.
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
