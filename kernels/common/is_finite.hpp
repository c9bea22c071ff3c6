// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

namespace msstream::ops::kernels {

/// Returns whether a number is neither NaN nor infinite.
[[nodiscard]] MSSTREAM_HOST_DEVICE inline bool is_finite(float number) {
  return number - number == 0.0F;
}

}  // namespace msstream::ops::kernels
