// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/host.hpp>

namespace msstream {

/// What `Device device;` uses: CUDA in a build that has it, else the host runtime.
#if MSSTREAM_CUDA
using DefaultRuntime = Cuda;
#else
using DefaultRuntime = Host;
#endif

}  // namespace msstream
