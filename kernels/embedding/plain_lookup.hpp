// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "embedding/lookup.hpp"

namespace msstream::ops::kernels {

/// Launches a lookup with the kernels of plain_lookup.cuh. Returns false, and launches nothing, if
/// the lookup is not plain or if the other kernels are faster for its shape.
[[nodiscard]] bool launch_plain_lookup(CudaStream stream, LookupArgs const& args);

}  // namespace msstream::ops::kernels
