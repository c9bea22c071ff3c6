// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The order in which squares are added in float64, on the host and on CUDA alike. An array is cut
/// into chunks of kSumLanes * 4 * Quads elements. Lane l of a chunk adds the elements 4 l to
/// 4 l + 3, and again at every further 4 * kSumLanes elements. Each lane then adds the sum of the
/// lane at a distance, which goes from half of the lanes down to one. The sums of the chunks are
/// added in the same way: lane l adds the chunks l, l + kSumLanes, and so on. The squares of floats
/// are exact in float64, so a fused multiply-add gives the same bits.
namespace msstream::ops::kernels {

inline constexpr int kSumLanes = 256;

template <int Quads>
inline constexpr std::int64_t kSumChunk = std::int64_t{4} * kSumLanes* Quads;

[[nodiscard]] constexpr std::int64_t chunks_of(std::int64_t count, std::int64_t chunk) {
  return (count + chunk - 1) / chunk;
}

/// The quads of four elements that each lane adds in a chunk of a global norm.
inline constexpr int kNormQuads = 4;
inline constexpr std::int64_t kNormChunk = kSumChunk<kNormQuads>;
/// The Quads and the elements of a chunk for the norms of LAMB.
inline constexpr int kLambQuads = 1;
inline constexpr std::int64_t kLambChunk = kSumChunk<kLambQuads>;

}  // namespace msstream::ops::kernels
