// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_device.hpp>

#include <memory>

namespace msstream::memory {

class CaptureMemory;

}  // namespace msstream::memory

namespace msstream::detail {

/// The body of every StepMemory<R>, whatever the runtime. Copies refer to the same memory.
class AnyStepMemory {
 public:
  /// Makes memory that any number of steps share. If `group` is not null, the steps are replayed on
  /// it. Throws std::invalid_argument for a group of another device or of a capture.
  AnyStepMemory(AnyDevice const& device, std::shared_ptr<StreamGroup> group);
  /// Makes memory for a single step.
  [[nodiscard]] static AnyStepMemory of_one(AnyDevice const& device);

  [[nodiscard]] std::shared_ptr<memory::CaptureMemory> const& engine() const noexcept {
    return memory_;
  }

 private:
  explicit AnyStepMemory(std::shared_ptr<memory::CaptureMemory> memory) noexcept;

  std::shared_ptr<memory::CaptureMemory> memory_;
};

}  // namespace msstream::detail
