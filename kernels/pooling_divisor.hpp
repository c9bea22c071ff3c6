// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer_math.hpp"

#include <msstream/ops/kernels/bag_view.hpp>

#include <cstdint>

/// What a bag's weighted sum is divided by; both twins evaluate it operation for operation.
namespace msstream::ops::kernels {

[[nodiscard]] constexpr bool divides(Pooling pooling) {
  return pooling == Pooling::mean || pooling == Pooling::sqrtn;
}

/// Takes in the valid ids of a bag, in their order. Weights are summed in float64. Lookups of one
/// table on CUDA do the same with fewer registers, in embedding_combiners.cuh.
struct PoolingDivisor {
  std::int64_t valid = 0;
  double total = 0.0;  ///< of the weights, or for sqrtn of their squares

  MSSTREAM_HOST_DEVICE void add_weight(Pooling pooling, float weight) {
    Rounded const w{weight};
    total += static_cast<double>((pooling == Pooling::sqrtn ? w * w : w).value);
  }
  /// Of a pooling that divides.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float get(Pooling pooling, bool is_weighted) const {
    float const sum = is_weighted ? static_cast<float>(total) : static_cast<float>(valid);
    return pooling == Pooling::sqrtn ? root(Rounded{sum}).value : sum;
  }
};

/// What a place adds is multiplied with this; a bag whose divisor is 0 has no gradient at all.
MSSTREAM_HOST_DEVICE inline float factor_from(float weight, float divisor) {
  return (Rounded{weight} / Rounded{divisor}).value;
}

}  // namespace msstream::ops::kernels
