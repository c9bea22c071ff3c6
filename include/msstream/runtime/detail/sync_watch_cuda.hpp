// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_CUDA

#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/detail/sync_watch.hpp>

namespace msstream::detail {

/// Observes the calls into CUDA of all code in the process, through CUPTI's callbacks from the
/// driver, in which all calls of the CUDA runtime end. Reports those that synchronise implicitly:
/// cudaDeviceSynchronize, allocating and freeing memory, copies that block or touch pageable
/// memory, and work on the legacy default stream.
///
/// Loads libcupti at the first start. If it is missing, or in use by another tool (it serves one at
/// a time), nothing is observed, and a line on stderr says so.
template <>
struct SyncWatch<Cuda> {
  static bool start() noexcept;
};

}  // namespace msstream::detail

#endif
