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

/// The scratch memory of one operation. Owns no tensor if the operation needs no scratch memory.
class Workspace {
 public:
  Workspace(std::shared_ptr<DeviceState> const& device, std::size_t bytes) {
    if (bytes > 0) {
      memory_.emplace(device, Shape{static_cast<std::int64_t>(bytes)});
    }
  }
  [[nodiscard]] void* data() const noexcept { return memory_ ? memory_->data() : nullptr; }
  /// Returns the list `written` of an operation's outputs with the workspace added, if it has
  /// memory.
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

/// Calls `query` with the compute stream of the calling thread's stream group, as a HostStream or a
/// CudaStream, and returns its result. Used to ask kernels for the size of their workspace, which
/// depends on the runtime and not on the stream.
template <class Query>
[[nodiscard]] auto ask_kernels(DeviceState& device, Query&& query) {
  return msstream::detail::call_with_stream_of(*device.context->runtime,
                                               device.current_group().compute().native(),
                                               nullptr,
                                               std::forward<Query>(query));
}

}  // namespace msstream::ops::detail
