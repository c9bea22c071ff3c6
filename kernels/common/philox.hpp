// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <cstdint>

/// Counter-based random numbers: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, Parallel Random
/// Numbers: As Easy as 1, 2, 3 (SC 2011), section 3.3. A number depends on a key and a counter
/// alone, so that any thread computes any number without a state.
namespace msstream::ops::kernels {

/// A counter of Philox4x32, or the four random words that it gives.
struct PhiloxWords {
  std::uint32_t at[4];
};

/// Returns a * b. On a GPU one instruction: a compiler that extends constants to 64 bits adds one
/// for their upper halves, which are 0.
MSSTREAM_HOST_DEVICE inline std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  std::uint64_t product = 0;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return std::uint64_t{a} * b;
#endif
}

/// Returns the four random words of a counter. The lower half of the key is the paper's first word
/// of the key.
MSSTREAM_HOST_DEVICE inline PhiloxWords philox(PhiloxWords counter, std::uint64_t key) {
  constexpr int kRounds = 10;
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53U;
  constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57U;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < kRounds; ++round) {
    std::uint64_t const product0 = wide_product(kMultiplier0, counter.at[0]);
    std::uint64_t const product1 = wide_product(kMultiplier1, counter.at[2]);
    counter = {{static_cast<std::uint32_t>(product1 >> 32U) ^ counter.at[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32U) ^ counter.at[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// Returns a bijective function of 64 bits that changes about half of the bits when one bit of the
/// argument changes (the finaliser of MurmurHash3 with the constants of Stafford's mix 13).
MSSTREAM_HOST_DEVICE inline std::uint64_t mixed_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBULL;
  return bits ^ (bits >> 31U);
}

/// Returns the key of the random numbers of a seed and a stream. Streams of one seed have different
/// keys, and so have the seeds of one stream.
MSSTREAM_HOST_DEVICE inline std::uint64_t philox_key(std::uint64_t seed, std::uint64_t stream) {
  return mixed_bits(seed ^ mixed_bits(stream + 0x9E3779B97F4A7C15ULL));
}

/// Returns the counter of elements [4 block, 4 block + 4) of a filled tensor. Its last word differs
/// from that of every counter of a dropout, whose samples are below kMostSamples.
MSSTREAM_HOST_DEVICE inline PhiloxWords fill_counter(std::int64_t block) {
  auto const bits = static_cast<std::uint64_t>(block);
  return {{static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32U), 0U, ~0U}};
}

/// One more than the largest number of a sample whose elements dropout() can draw.
inline constexpr std::int64_t kMostSamples = (std::int64_t{1} << 48U) - (std::int64_t{1} << 32U);

/// Returns the counter of columns [4 block, 4 block + 4) of a sample in a step. Counters differ for
/// blocks below 2^32, samples in [0, kMostSamples) and steps below 2^48.
MSSTREAM_HOST_DEVICE inline PhiloxWords dropout_counter(std::int64_t block,
                                                        std::int64_t sample,
                                                        std::int64_t step) {
  auto const sample_bits = static_cast<std::uint64_t>(sample);
  auto const step_bits = static_cast<std::uint64_t>(step);
  return {{static_cast<std::uint32_t>(block),
           static_cast<std::uint32_t>(sample_bits),
           static_cast<std::uint32_t>(step_bits),
           static_cast<std::uint32_t>(sample_bits >> 32U) << 16U |
               (static_cast<std::uint32_t>(step_bits >> 32U) & 0xFFFFU)}};
}

}  // namespace msstream::ops::kernels
