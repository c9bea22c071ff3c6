// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/optimizer.hpp"

#include <span>

namespace msstream::ops::kernels {

/// Updates dense parameters by LAMB, three launches for up to 40 of them: the moments with the sums
/// of squares of each chunk, the trust ratio of each parameter, and the weights. `workspace` has
/// the size that dense_workspace_bytes() returns.
void update_dense_by_lamb(CudaStream stream,
                          OptimizerRule const& rule,
                          StepState const* step,
                          std::span<DenseUpdate const> updates,
                          double* workspace);

}  // namespace msstream::ops::kernels
