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

/// Returns log(1 + exp(x)), without overflow; NaN for NaN.
MSSTREAM_HOST_DEVICE inline float softplus(float x) {
  return (x < 0.0F ? 0.0F : x) + std::log1p(std::exp(-std::fabs(x)));
}

/// The loss of one element, and its derivative with respect to the input.
struct ElementLoss {
  float loss;
  float gradient;
};

/// Returns the binary cross entropy of logit `x` and label `z`, whose positive part is multiplied
/// by `positive`. NaN for a label outside [0, 1].
MSSTREAM_HOST_DEVICE inline ElementLoss weighted_bce(float x, float label, float positive) {
  float const z = probability_or_nan(label);
  if (positive == 1.0F) {
    return {bce_loss(x, z), logistic(x) - z};
  }
  float const of_positive = positive * z;
  float const of_negative = 1.0F - z;
  // An infinite logit that agrees with the label has the limit.
  return {(of_positive == 0.0F ? 0.0F : of_positive * softplus(-x)) +
              (of_negative == 0.0F ? 0.0F : of_negative * softplus(x)),
          of_negative * logistic(x) - of_positive * logistic(-x)};
}

/// Returns the squared difference of a prediction and its target.
MSSTREAM_HOST_DEVICE inline ElementLoss squared_error(float x, float target) {
  float const difference = x - target;
  return {difference * difference, 2.0F * difference};
}

/// Returns max(0, margin - (2 label - 1) x). NaN for a label outside [0, 1].
MSSTREAM_HOST_DEVICE inline ElementLoss hinge(float x, float label, float margin) {
  float const side = 2.0F * probability_or_nan(label) - 1.0F;
  float const loss = margin - side * x;
  if (loss <= 0.0F) {
    return {0.0F, 0.0F};
  }
  return {loss, loss > 0.0F ? -side : loss};
}

/// Returns max(x, 0), or NaN for NaN, so that an invalid input shows in the output.
MSSTREAM_HOST_DEVICE inline float rectify(float x) {
  return x < 0.0F ? 0.0F : x;
}

}  // namespace msstream::ops::kernels
