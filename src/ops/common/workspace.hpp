// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/device/device_state.hpp"

#include <msstream/ops/detail/typed.hpp>
#include <msstream/stream/detail/work_ref.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace msstream::ops::detail {

/// Scratch memory that one operation writes. Holds no tensor if the operation needs no memory.
class Workspace {
 public:
  Workspace(std::shared_ptr<DeviceState> const& device, std::size_t bytes) {
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
  std::optional<TensorOf<std::uint8_t>> memory_;
};

/// Returns `query(stream)` for the compute stream of the calling thread's group, a HostStream or a
/// CudaStream: for workspace sizes, which depend on the runtime and not on the stream.
template <class Query>
[[nodiscard]] auto ask_kernels(DeviceState& device, Query&& query) {
  return msstream::detail::call_with_stream_of(*device.context->runtime,
                                               device.current_group().compute().native(),
                                               nullptr,
                                               std::forward<Query>(query));
}

}  // namespace msstream::ops::detail
