// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense/product_plan.hpp"

#include <vector>

namespace msstream::ops::kernels {

/// Returns the fastest of several algorithms for a product's shape among those that give the bits
/// of the first one, which is kept unless another one is at least 3% faster. Measures them on
/// random operands, on a stream of its own, and waits for that stream alone, so that it may be
/// called while the thread captures another stream. Returns the first one if there is no memory for
/// the operands, or if the epilogue has operands besides a bias and the auxiliary matrix of GELU.
/// Thread-safe.
[[nodiscard]] Algorithm fastest_with_same_bits(CudaStream::Libraries const& libraries,
                                               PlanKey const& key,
                                               std::vector<Algorithm> const& algorithms);

}  // namespace msstream::ops::kernels
