// SPDX-License-Identifier: Apache-2.0
#include "memory/device_state.hpp"

#include <msstream/serve/device_calls.hpp>

#include <memory>

namespace msstream::serve {

std::shared_ptr<detail::StreamGroup> current_group(detail::DeviceState& device) {
  return device.current_group().shared_from_this();
}

void release_unneeded_memory(detail::DeviceState& device) {
  device.memory.release_unneeded();
}

}  // namespace msstream::serve
