// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace msstream::detail {

struct DeviceState;
class StreamGroup;

}  // namespace msstream::detail

namespace msstream::serve {

/// Returns the group of the calling thread's next operation on the device.
[[nodiscard]] std::shared_ptr<detail::StreamGroup> current_group(detail::DeviceState& device);
/// Returns device memory to the runtime that the device's options do not let it keep.
void release_unneeded_memory(detail::DeviceState& device);

}  // namespace msstream::serve
