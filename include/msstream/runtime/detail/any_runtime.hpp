// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

namespace msstream::detail {

/// Stands for the runtime type in code that is compiled once, for all runtimes: a
/// Tensor<float, AnyRuntime> is a float32 tensor on a device of whichever runtime. The
/// specialisation of a face for AnyRuntime is the face's body: the faces for runtimes derive from
/// it, and add types. Work on an AnyRuntime is called with a HostStream or a CudaStream, as the
/// device asks for.
struct AnyRuntime {};

}  // namespace msstream::detail
