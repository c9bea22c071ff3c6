// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <cmath>
#include <limits>

/// Scalar formulae that the host and CUDA implementations both evaluate, operation for operation
/// alike.
namespace msstream::ops::kernels {

/// Returns 1 / (1 + exp(-x)). The exponent is never positive, so nothing overflows.
MSSTREAM_HOST_DEVICE inline float logistic(float x) {
  float const tail = std::exp(-std::fabs(x));
  return (x < 0.0F ? tail : 1.0F) / (1.0F + tail);
}

/// Returns the label `z` of a binary cross entropy, or NaN if it is outside [0, 1], so that an
/// invalid label shows in the loss.
MSSTREAM_HOST_DEVICE inline float probability_or_nan(float z) {
  return z >= 0.0F && z <= 1.0F ? z : std::numeric_limits<float>::quiet_NaN();
}

/// Returns the binary cross entropy of logit `x` and label `z`; NaN stays NaN. An infinite logit
/// gives the limit: 0 if the label agrees with it, otherwise infinity.
MSSTREAM_HOST_DEVICE inline float bce_loss(float x, float z) {
  float const disagreement = x > 0.0F ? 1.0F - z : -z;
  float const linear = disagreement == 0.0F ? 0.0F : x * disagreement;
  return linear + std::log1p(std::exp(-std::fabs(x)));
}

/// Returns max(x, 0), or NaN for NaN, so that an invalid input shows in the output.
MSSTREAM_HOST_DEVICE inline float rectify(float x) {
  return x < 0.0F ? 0.0F : x;
}

}  // namespace msstream::ops::kernels
