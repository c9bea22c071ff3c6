// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise_math.hpp"

/// The gradient of a softmax, for both twins: from its outputs y and their gradients dy.
namespace msstream::ops::kernels {

/// What the row's sum takes from one element.
MSSTREAM_HOST_DEVICE inline float weighted(float y, float dy) {
  return y != 0.0F ? y * dy : 0.0F;
}
/// `total` is the row's sum.
MSSTREAM_HOST_DEVICE inline float gradient_of(float y, float dy, float total) {
  return y != 0.0F ? y * (dy - total) : 0.0F;
}

}  // namespace msstream::ops::kernels
