// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_call.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <fmt/core.h>

namespace fake_cuda {

/// Counts a call of a fake driver function, and runs its implementation `body(device)`. Reports a
/// misuse by the library if the result is CUDA_ERROR_INVALID_VALUE.
template <class Body>
CUresult driver_call(char const* name, Body&& body) {
  auto code = CUDA_ERROR_LAUNCH_FAILED;
  call(name, [&](FakeDevice& device) {
    code = body(device);
    return code == CUDA_ERROR_INVALID_VALUE
               ? device.misuse(fmt::format("{} with a wrong argument", name), cudaErrorInvalidValue)
               : cudaSuccess;
  });
  return code;
}

}  // namespace fake_cuda
