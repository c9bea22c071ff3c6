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
  Workspace(std::shared_ptr<msstream::detail::DeviceState> const& device, std::size_t bytes) {
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

/// The compute stream of the calling thread's group, for queries of workspace sizes. The sizes
/// depend on the runtime only, not on the stream.
struct QueryStream {
  msstream::detail::Backend& runtime;
  msstream::detail::NativeStream stream;
};
[[nodiscard]] QueryStream query_stream(msstream::detail::DeviceState& device);
template <Runtime R>
[[nodiscard]] typename R::stream_ref size_query(msstream::detail::DeviceState& device) {
  auto const [runtime, stream] = query_stream(device);
  return static_cast<msstream::detail::BackendOf<R>&>(runtime).ref(stream, nullptr);
}

}  // namespace msstream::ops::detail
