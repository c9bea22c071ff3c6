// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/runtime/capturing.hpp>
#include <msstream/step/detail/any_step_memory.hpp>
#include <msstream/stream/stream_group.hpp>

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
  explicit StepMemory(Device<R> const& device) : any_(device.engine(), nullptr) {}
  /// Makes memory for steps that are always replayed on `group`, whatever the current group is.
  /// Operations that they issue to this group use its own library workspace. Throws
  /// std::invalid_argument for a group of another device.
  StepMemory(Device<R> const& device, StreamGroup<R> const& group)
      : any_(device.engine(), group.share_engine()) {}

  [[nodiscard]] detail::AnyStepMemory const& engine() const noexcept { return any_; }

 private:
  detail::AnyStepMemory any_;
};

template <Runtime R>
StepMemory(Device<R> const&) -> StepMemory<R>;
template <Runtime R>
StepMemory(Device<R> const&, StreamGroup<R> const&) -> StepMemory<R>;

}  // namespace msstream
