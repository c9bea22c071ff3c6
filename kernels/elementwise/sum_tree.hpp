// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// The order in which reduce_sum() adds, common to the host and CUDA implementations, so that both
/// give the same bits:
///
///   lane l of 1024 adds elements l, l + 1024, …    of one chunk of 65536
///   sum k of 32 adds lanes k, k + 32, …
///   the 32 sums are folded in halves: sum k adds sum k + 16, then sum k + 8, …
///
/// If there is more than one chunk, the sums of the chunks are added in the same way.
namespace msstream::ops::kernels {

inline constexpr int kTreeLanes = 1024;
inline constexpr int kTreeFold = 32;
inline constexpr std::int64_t kTreeChunk = 65536;

constexpr std::int64_t tree_chunks(std::int64_t count) {
  return (count + kTreeChunk - 1) / kTreeChunk;
}

/// Returns the bytes of workspace that reduce_sum() needs: 0 for a single chunk of elements,
/// otherwise the bytes of one float per chunk.
constexpr std::size_t tree_workspace_bytes(std::int64_t count) {
  return count <= kTreeChunk ? 0 : static_cast<std::size_t>(tree_chunks(count)) * sizeof(float);
}

}  // namespace msstream::ops::kernels
