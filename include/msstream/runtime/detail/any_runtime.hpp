// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

namespace msstream::detail {

/// A placeholder for the runtime type in code that is compiled once for all runtimes: a
/// Tensor<float, AnyRuntime> is a float32 tensor on a device of any runtime. The specialisation of
/// a class template for AnyRuntime is the implementation; the class for a runtime type R derives
/// from it, and adds types. The work of an operation on an AnyRuntime is called with a HostStream
/// or a CudaStream, depending on the device.
struct AnyRuntime {};

}  // namespace msstream::detail
