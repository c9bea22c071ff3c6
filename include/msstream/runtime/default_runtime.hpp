// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/host.hpp>

#include <type_traits>

namespace msstream {

/// What `Device device;` uses: CUDA in a build that has it, else the host runtime; checked in a
/// build with MSSTREAM_CHECKED.
#if MSSTREAM_CUDA
using PlainDefaultRuntime = Cuda;
#else
using PlainDefaultRuntime = Host;
#endif
#if MSSTREAM_CHECKED
using DefaultRuntime = Checked<PlainDefaultRuntime>;
#else
using DefaultRuntime = PlainDefaultRuntime;
#endif

}  // namespace msstream
