// SPDX-License-Identifier: Apache-2.0
#include "memory/capture/capture_memory.hpp"
#include "memory/device/device_state.hpp"

#include <msstream/base/error.hpp>
#include <msstream/step/detail/any_step_memory.hpp>

#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

namespace msstream::detail {
namespace {

/// The most bytes that shared memory reserves at a time, which keeps it small. The memory of a
/// single step has no such limit, because larger reservations avoid waits.
constexpr std::size_t kSharedGrowthBytes = std::size_t{2} << 20U;

std::shared_ptr<memory::CaptureMemory> make_memory(AnyDevice const& device,
                                                   std::size_t growth_bytes,
                                                   std::shared_ptr<StreamGroup> group) {
  return std::make_shared<memory::CaptureMemory>(
      device.context(), device.state()->memory.make_private_pools(growth_bytes), std::move(group));
}

std::shared_ptr<StreamGroup> checked(AnyDevice const& device, std::shared_ptr<StreamGroup> group) {
  if (group != nullptr) {
    require(group->context() == device.context() && !group->captured(),
            "StepMemory: ",
            group->name(),
            " is of another device, or of a capture; expected a group of the device itself");
  }
  return group;
}

}  // namespace

AnyStepMemory::AnyStepMemory(AnyDevice const& device, std::shared_ptr<StreamGroup> group)
    : memory_(make_memory(device, kSharedGrowthBytes, checked(device, std::move(group)))) {}
AnyStepMemory::AnyStepMemory(std::shared_ptr<memory::CaptureMemory> memory) noexcept
    : memory_(std::move(memory)) {}

AnyStepMemory AnyStepMemory::of_one(AnyDevice const& device) {
  return AnyStepMemory(make_memory(device, std::numeric_limits<std::size_t>::max(), nullptr));
}

}  // namespace msstream::detail
