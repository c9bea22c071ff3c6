// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace msstream::detail {

/// The maximum size in bytes of a captured copy between pinned and device memory that is made by a
/// kernel, which accesses the host's memory itself. A graph then does not switch from the
/// multiprocessors to a copy engine and back, which costs a chain of work 5 us each time, and
/// copies do not queue for the few copy engines. Larger copies are left to the copy engines,
/// because kernels run undisturbed beside them. Copies outside captures are left to the copy
/// engines, too, because a kernel made no difference for them.
inline constexpr std::size_t kMostPinnedCopyBytes = std::size_t{256} << 10U;

/// Copies `bytes` bytes on the stream with a kernel. Both addresses must be device addresses, with
/// any alignment. Returns the result of the launch.
cudaError_t copy_by_kernel(void* to, void const* from, std::size_t bytes, cudaStream_t stream);

}  // namespace msstream::detail
