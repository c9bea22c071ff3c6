// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_device.hpp"

#include <cuda_runtime_api.h>

#include <fmt/core.h>

#include <mutex>

namespace fake_cuda {

/// The last CUDA error of the calling thread, which cudaGetLastError() returns.
inline thread_local cudaError_t last_error = cudaSuccess;

/// Counts a call of a fake CUDA function, runs its implementation `body(device)`, and stores its
/// error for cudaGetLastError(). cudaErrorNotReady is a result and not stored.
template <class Body>
cudaError_t call(char const* name, Body&& body) {
  auto& device = FakeDevice::instance();
  std::lock_guard const guard(device.mutex);
  device.counts.add(name);
  if (device.fails_now(name)) {
    return last_error = cudaErrorLaunchFailure;
  }
  auto const code =
      FakeDevice::inside_host_function()
          ? device.misuse(fmt::format("{} inside a host function", name), cudaErrorNotPermitted)
          : body(device);
  if (code != cudaSuccess && code != cudaErrorNotReady) {
    last_error = code;
  }
  return code;
}

}  // namespace fake_cuda
