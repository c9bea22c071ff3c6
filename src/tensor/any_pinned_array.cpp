// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "memory/device/synchronize_uses.hpp"

#include <msstream/runtime/detail/runtime_thread.hpp>
#include <msstream/tensor/detail/any_pinned_array.hpp>

#include <cstddef>
#include <memory>

namespace msstream::detail {

AnyPinnedArray::AnyPinnedArray(std::shared_ptr<DeviceState> const& device,
                               std::size_t count,
                               std::size_t element_bytes)
    : block_(device->pinned.allocate(memory::bytes_of_array(count, element_bytes),
                                     device->current_group().compute().slot(),
                                     device)),
      data_(block_->data),
      count_(count),
      element_bytes_(element_bytes) {}

std::shared_ptr<DeviceState> const& AnyPinnedArray::device() const noexcept {
  return *block_->device;
}

void AnyPinnedArray::host_uses(AccessMode mode) const {
  auto& runtime = *device()->context->runtime;
  if (runtime.traits.observes && !RuntimeThread::is_current()) {
    runtime.host_uses({data_, bytes(), mode});
  }
}

void AnyPinnedArray::wait(char const* call) const {
  synchronize_uses(*block_, AccessMode::write, call);
  device()->run_checks();
}

}  // namespace msstream::detail
