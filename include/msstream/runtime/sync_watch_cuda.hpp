// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_CUDA

#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/sync_watch.hpp>

namespace msstream {

/// Sees the calls into CUDA of everybody in the process through CUPTI's callbacks from the driver,
/// in which all calls of the CUDA runtime end, and tells the listener of those that synchronise
/// implicitly: cudaDeviceSynchronize, taking and giving back memory, copies that block or touch
/// pageable memory, and work on the legacy default stream.
///
/// libcupti is looked for at the first start. Without it, or when another tool has it (it serves
/// one at a time), nothing is seen, and a line on stderr says so.
template <>
struct SyncWatch<Cuda> {
  static bool start() noexcept;
};

}  // namespace msstream

#endif
