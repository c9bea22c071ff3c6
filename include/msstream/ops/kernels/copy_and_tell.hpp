// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// to = from; then *told = 1, for a host that looks at it instead of asking the device: whoever has
/// seen it with acquire sees the copy, too. One thread block copies: for a few KiB.
struct CopyAndTellArgs {
  float const* from;   ///< [count], of the device
  float* to;           ///< [count], pinned memory of the host
  std::int64_t count;  ///< may be 0
  std::int32_t* told;  ///< pinned memory of the host
};
void copy_and_tell(HostStream stream, CopyAndTellArgs const& args);
void copy_and_tell(CudaStream stream, CopyAndTellArgs const& args);

}  // namespace msstream::ops::kernels
