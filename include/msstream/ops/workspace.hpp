// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace msstream::ops::detail {

/// Scratch memory that one operation writes. Holds no tensor if the operation needs no memory.
template <Runtime R>
class Workspace {
 public:
  Workspace(std::shared_ptr<DeviceState<R>> const& device, std::size_t bytes) {
    if (bytes > 0) {
      memory_.emplace(device, Shape{static_cast<std::int64_t>(bytes)});
    }
  }
  [[nodiscard]] void* data() const noexcept { return memory_ ? memory_->data() : nullptr; }
  /// Returns `written` with this workspace added.
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

/// Returns a stream for queries of workspace sizes. The sizes depend on the runtime only, not on
/// the stream.
template <Runtime R>
typename R::stream_ref size_query(DeviceState<R>& device) {
  return device.context->runtime->ref(device.current_group().compute().native(), {});
}

}  // namespace msstream::ops::detail
