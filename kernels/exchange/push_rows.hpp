// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

inline constexpr int kMostPushRanks = 16;

/// Writes rows into the memory of other ranks, which this rank's device reaches: the first
/// counts[r] rows of input[r] to the place [rank] of output r, for all ranks r. A count outside
/// [0, capacity] becomes the nearest of these.
struct PushRowsArgs {
  std::byte const* input;             ///< [ranks, capacity] rows
  std::int64_t const* counts;         ///< [ranks]
  std::byte* output[kMostPushRanks];  ///< of each rank: [ranks, capacity] rows
  std::int64_t row_bytes;
  std::int64_t capacity;
  int rank;
  int ranks;        ///< 1 to kMostPushRanks
  int most_blocks;  ///< of the launch, at least 1; on CUDA alone
};
void push_rows(HostStream stream, PushRowsArgs const& args);
void push_rows(CudaStream stream, PushRowsArgs const& args);

}  // namespace msstream::ops::kernels
