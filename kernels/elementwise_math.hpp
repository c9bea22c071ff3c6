// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

#if defined(__CUDACC__)
#define MSSTREAM_HOST_DEVICE __host__ __device__
#else
#define MSSTREAM_HOST_DEVICE
#endif

/// The scalar formulae that both twins evaluate, operation for operation.
namespace msstream::ops::kernels {

/// 1 / (1 + exp(-x)): the exponent is never positive, so nothing overflows.
MSSTREAM_HOST_DEVICE inline float logistic(float x) {
  float const tail = std::exp(-std::fabs(x));
  return (x < 0.0F ? tail : 1.0F) / (1.0F + tail);
}

/// The label `z` of a binary cross-entropy, but NaN outside [0, 1], so that a broken label shows in
/// the loss.
MSSTREAM_HOST_DEVICE inline float probability_or_nan(float z) {
  return z >= 0.0F && z <= 1.0F ? z : std::numeric_limits<float>::quiet_NaN();
}

/// Binary cross entropy of logit `x` and label `z`; NaN stays NaN. An infinite logit gives the
/// limit: 0 where the label agrees with it, else infinity.
MSSTREAM_HOST_DEVICE inline float bce_loss(float x, float z) {
  float const disagreement = x > 0.0F ? 1.0F - z : -z;
  float const linear = disagreement == 0.0F ? 0.0F : x * disagreement;
  return linear + std::log1p(std::exp(-std::fabs(x)));
}

/// max(x, 0), but NaN stays NaN, so that a broken input shows in the output.
MSSTREAM_HOST_DEVICE inline float rectify(float x) {
  return x < 0.0F ? 0.0F : x;
}

}  // namespace msstream::ops::kernels
