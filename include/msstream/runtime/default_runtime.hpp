// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/host.hpp>

#include <type_traits>

#ifndef MSSTREAM_CHECKED
#define MSSTREAM_CHECKED 0
#endif
#if MSSTREAM_CHECKED
#include <msstream/runtime/checked.hpp>
#endif

namespace msstream {

/// The runtime that `Device device;` uses: CUDA in a build that has it, otherwise the host runtime.
/// It is checked if MSSTREAM_CHECKED is 1, set by the library's build option or by a definition of
/// the user's target. The value is the same in all files of a program.
#if MSSTREAM_CUDA
using PlainDefaultRuntime = Cuda;
#else
using PlainDefaultRuntime = Host;
#endif
#if MSSTREAM_CHECKED
using DefaultRuntime = Checked<PlainDefaultRuntime>;
#else
/// The runtime of a program that names none: Cuda in a build with CUDA, otherwise Host; checked in
/// a build with MSSTREAM_CHECKED.
using DefaultRuntime = PlainDefaultRuntime;
#endif

}  // namespace msstream
