// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_array.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// Computes offsets[i] = the sum of the lengths before i, for i ≤ capacity. A length below 0 counts
/// as 0, as does a length at or after index *count.
struct LengthsToOffsetsArgs {
  IdArray lengths;  ///< [capacity]
  std::int64_t capacity;
  std::int64_t const* count;  ///< device scalar, or null if all `capacity` lengths exist
  std::int64_t* offsets;      ///< [capacity + 1]
  void*
      workspace;  ///< lengths_to_offsets_workspace_bytes(stream, capacity) bytes, 256-byte aligned
};
/// Returns the bytes of workspace that lengths_to_offsets() needs, without a query of the device.
/// Returns 0 on the host, and where the CUDA implementation needs one launch and no workspace.
std::size_t lengths_to_offsets_workspace_bytes(HostStream stream, std::int64_t capacity);
std::size_t lengths_to_offsets_workspace_bytes(CudaStream stream, std::int64_t capacity);
void lengths_to_offsets(HostStream stream, LengthsToOffsetsArgs const& args);
void lengths_to_offsets(CudaStream stream, LengthsToOffsetsArgs const& args);

/// Computes lengths[i] = offsets[i + 1] - offsets[i], for i < count. A length is 0 where the
/// difference or offsets[i] is below 0.
struct OffsetsToLengthsArgs {
  std::int64_t const* offsets;  ///< [count + 1]
  std::int64_t count;
  std::int64_t* lengths;  ///< [count]
};
void offsets_to_lengths(HostStream stream, OffsetsToLengthsArgs const& args);
void offsets_to_lengths(CudaStream stream, OffsetsToLengthsArgs const& args);

}  // namespace msstream::ops::kernels
