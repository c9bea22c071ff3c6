// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace msstream::doctor {

/// Returns the architectures for which nvcc compiled the kernels of the build, as machine code or
/// as PTX, such as 90.
[[nodiscard]] std::vector<int> kernel_architectures();

/// Launches a kernel of one thread that does nothing. Returns the result of the launch.
cudaError_t launch_empty(cudaStream_t stream);

/// Launches a kernel of one thread that waits for `ns`, and at most about a second on any device.
/// Writes the instants in ns at which it began and ended to `begin_and_end`, two numbers in device
/// memory, or nowhere if null. Returns the result of the launch.
cudaError_t launch_wait(cudaStream_t stream, std::uint64_t ns, std::uint64_t* begin_and_end);

/// Launches a kernel of `blocks` blocks of 1,024 threads, which each hold a multiprocessor, or half
/// of one, for `ns`, and at most about a second. Returns the result of the launch.
cudaError_t launch_busy(cudaStream_t stream, int blocks, std::uint64_t ns);

}  // namespace msstream::doctor
