// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace msstream::detail {

/// Up to here a copy between pinned and device memory that is captured is made by a kernel, which
/// reads or writes the host's memory itself: a graph then changes from the multiprocessors to a
/// copy engine and back no more, which takes a chain of work 5 us each time, and there is no queue
/// for the few engines. Larger copies are left to those, beside which kernels run undisturbed, and
/// so are copies that are not captured, for which it made no difference.
inline constexpr std::size_t kMostPinnedCopyBytes = std::size_t{256} << 10U;

/// Both as the device addresses them; any alignment. Returns what the launch returned.
cudaError_t copy_by_kernel(void* to, void const* from, std::size_t bytes, cudaStream_t stream);

}  // namespace msstream::detail
