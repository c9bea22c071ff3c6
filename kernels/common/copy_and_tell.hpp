// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Copies `from` to `to` and then sets *told = 1, so that the host can poll *told instead of
/// querying the device. A host thread that reads the 1 with an acquire load also sees the copied
/// elements. One thread block copies, which suits a few KiB.
struct CopyAndTellArgs {
  float const* from;   ///< [count], device memory
  float* to;           ///< [count], pinned host memory
  std::int64_t count;  ///< may be 0
  std::int32_t* told;  ///< pinned host memory
};
void copy_and_tell(HostStream stream, CopyAndTellArgs const& args);
void copy_and_tell(CudaStream stream, CopyAndTellArgs const& args);

}  // namespace msstream::ops::kernels
