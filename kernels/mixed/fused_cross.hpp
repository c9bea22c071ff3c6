// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mixed/cross_products.hpp"

namespace msstream::ops::kernels {

/// The functions of cross_products.hpp that a fused kernel computes.
enum class CrossStage { forward, gradient, last_gradient };

/// Returns whether a product and the elementwise work behind it may be one kernel: matrices of half
/// precision with at most 512 terms, rows of a multiple of 16 bytes, and so many elements that it
/// is faster than a product of cuBLASLt and a pass (from 2 to 8 million).
[[nodiscard]] bool fits_fused_cross(CrossStage stage, CrossShape const& shape);

/// Returns whether they are one kernel on the device of a stream: fits_fused_cross(), on a GPU of
/// compute capability 9.0.
[[nodiscard]] bool fuses_cross_products(CudaStream stream,
                                        CrossStage stage,
                                        CrossShape const& shape);

/// The functions of cross_products.hpp as one kernel; cross_gradient() has another one for its
/// sums. All require fuses_cross_products() and matrices that are aligned to 16 bytes.
void fused_cross_forward(CudaStream stream, CrossForwardArgs const& args);
void fused_cross_gradient(CudaStream stream, CrossGradientArgs const& args);
void fused_cross_last_gradient(CudaStream stream, CrossLastGradientArgs const& args);

/// Returns the rows of partial sums that fused_cross_gradient() stores in its workspace.
[[nodiscard]] constexpr std::int64_t fused_cross_partial_rows(std::int64_t rows) {
  constexpr std::int64_t kBlockRows = 128;
  constexpr std::int64_t kSumsOfBlock = 4;
  return (rows + kBlockRows - 1) / kBlockRows * kSumsOfBlock;
}

}  // namespace msstream::ops::kernels
