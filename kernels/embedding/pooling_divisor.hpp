// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/rounded.hpp"
#include "optimizer/optimizer_math.hpp"

#include <msstream/ops/choices.hpp>

#include <cstdint>

/// The divisor of a bag's weighted sum, for the poolings mean and sqrtn. The CPU and the CUDA
/// implementation compute it by the same operations.
namespace msstream::ops::kernels {

[[nodiscard]] constexpr bool divides(Pooling pooling) {
  return pooling == Pooling::mean || pooling == Pooling::sqrtn;
}

/// The sum that a pooling divides by, over the valid ids of a bag in their order. Weights are
/// summed in float64. CUDA lookups in one table compute the sum with fewer registers, in
/// embedding/combiners.cuh.
struct PoolingDivisor {
  std::int64_t valid = 0;
  double total = 0.0;  ///< sum of the weights; for sqrtn, sum of their squares

  MSSTREAM_HOST_DEVICE void add_weight(Pooling pooling, float weight) {
    Rounded const w{weight};
    total += static_cast<double>((pooling == Pooling::sqrtn ? w * w : w).value);
  }
  /// Returns the divisor of a bag's sum for Pooling::mean or Pooling::sqrtn.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float get(Pooling pooling, bool is_weighted) const {
    float const sum = is_weighted ? static_cast<float>(total) : static_cast<float>(valid);
    return pooling == Pooling::sqrtn ? root(Rounded{sum}).value : sum;
  }
};

/// Returns the factor by which the gradient of a position in a bag is multiplied. A bag whose
/// divisor is 0 has no gradient at all.
MSSTREAM_HOST_DEVICE inline float factor_from(float weight, float divisor) {
  return (Rounded{weight} / Rounded{divisor}).value;
}

}  // namespace msstream::ops::kernels
