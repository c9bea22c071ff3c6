// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace msstream::detail {

/// Returns the NVTX domain "msstream"; null if no tool listens.
[[nodiscard]] nvtxDomainHandle_t nvtx_domain() noexcept;

}  // namespace msstream::detail
