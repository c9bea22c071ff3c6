// SPDX-License-Identifier: Apache-2.0
#include "memory/device_state.hpp"

#include <msstream/ops/workspace.hpp>

namespace msstream::ops::detail {

QueryStream query_stream(msstream::detail::DeviceState& device) {
  return {*device.context->runtime, device.current_group().compute().native()};
}

}  // namespace msstream::ops::detail
