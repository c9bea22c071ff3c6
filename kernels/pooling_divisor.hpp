// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer_math.hpp"

#include <msstream/ops/kernels/bag_view.hpp>

#include <cstdint>

/// What a bag's weighted sum is divided by; both twins evaluate it operation for operation.
namespace msstream::ops::kernels {

MSSTREAM_HOST_DEVICE inline float add_to_divisor(Pooling pooling, float total, float weight) {
  Rounded const w{weight};
  return (Rounded{total} + (pooling == Pooling::sqrtn ? w * w : w)).value;
}
/// From the total over the weights of the valid ids, or from how many there are.
MSSTREAM_HOST_DEVICE inline float divisor_from(Pooling pooling, float total) {
  return pooling == Pooling::sqrtn ? root(Rounded{total}).value : total;
}
/// What a place adds is multiplied with this; a bag whose divisor is 0 has no gradient at all.
MSSTREAM_HOST_DEVICE inline float factor_from(float weight, float divisor) {
  return (Rounded{weight} / Rounded{divisor}).value;
}

}  // namespace msstream::ops::kernels
