// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

/// The cross-entropy, and the gradient of a softmax from its outputs y and their gradients dy, for
/// both the CPU and the CUDA implementation.
namespace msstream::ops::kernels {

/// Returns logit - largest, for a cross-entropy. The largest logit gives 0 even if it is +infinity:
/// then the loss is the limit, 0 or infinity.
MSSTREAM_HOST_DEVICE inline float below_largest(float logit, float largest) {
  return logit == largest && largest > 0.0F ? 0.0F : logit - largest;
}
/// Returns the contribution of one element to the row's sum of y * dy.
MSSTREAM_HOST_DEVICE inline float weighted(float y, float dy) {
  return y != 0.0F ? y * dy : 0.0F;
}
/// Returns the gradient of an input. `total` is the row's sum of weighted().
MSSTREAM_HOST_DEVICE inline float gradient_of(float y, float dy, float total) {
  return y != 0.0F ? y * (dy - total) : 0.0F;
}

}  // namespace msstream::ops::kernels
