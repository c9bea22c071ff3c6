// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace msstream::ops::detail {

/// Scratch memory of one operation, written by it; no tensor at all for an operation that needs
/// none.
template <Runtime R>
class Workspace {
 public:
  Workspace(std::shared_ptr<DeviceState<R>> const& device, std::size_t bytes) {
    if (bytes > 0) {
      memory_.emplace(device, Shape{static_cast<std::int64_t>(bytes)});
    }
  }
  [[nodiscard]] void* data() const noexcept { return memory_ ? memory_->data() : nullptr; }
  /// `written`, and this workspace.
  template <class Uses>
  [[nodiscard]] Uses with(Uses written) const {
    if (memory_) {
      written.add(*memory_);
    }
    return written;
  }

 private:
  std::optional<Tensor<std::uint8_t, R>> memory_;
};

/// A stream to ask for workspace sizes, which depend on the runtime alone.
template <Runtime R>
typename R::stream_ref size_query(DeviceState<R>& device) {
  return device.context->runtime->ref(device.current_group().compute().native(), {});
}

}  // namespace msstream::ops::detail
