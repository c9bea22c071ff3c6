// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise_math.hpp"

/// A cross-entropy, and the gradient of a softmax from its outputs y and their gradients dy, for
/// both twins.
namespace msstream::ops::kernels {

/// logit - largest of a cross-entropy; 0 for the largest itself, also where that is +infinity: then
/// the loss is the limit, 0 or infinity.
MSSTREAM_HOST_DEVICE inline float below_largest(float logit, float largest) {
  return logit == largest && largest > 0.0F ? 0.0F : logit - largest;
}
/// What the row's sum takes from one element.
MSSTREAM_HOST_DEVICE inline float weighted(float y, float dy) {
  return y != 0.0F ? y * dy : 0.0F;
}
/// `total` is the row's sum.
MSSTREAM_HOST_DEVICE inline float gradient_of(float y, float dy, float total) {
  return y != 0.0F ? y * (dy - total) : 0.0F;
}

}  // namespace msstream::ops::kernels
