// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/philox.hpp"
#include "random/draw.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// Returns the upper 64 bits of the product of two numbers.
MSSTREAM_HOST_DEVICE inline std::uint64_t upper_product(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  constexpr std::uint64_t kLower = 0xFFFFFFFFU;
  std::uint64_t const low = (a & kLower) * (b & kLower);
  std::uint64_t const left = (a >> 32U) * (b & kLower) + (low >> 32U);
  std::uint64_t const right = (a & kLower) * (b >> 32U) + (left & kLower);
  return (a >> 32U) * (b >> 32U) + (left >> 32U) + (right >> 32U);
#endif
}

/// Returns integer `k` of those that a Philox block gives.
MSSTREAM_HOST_DEVICE inline std::int64_t random_integer(DrawIntegersArgs const& args,
                                                        PhiloxWords const& words,
                                                        int k) {
  auto const bits = std::uint64_t{words.at[2 * k + 1]} << 32U | words.at[2 * k];
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(args.low) +
                                   upper_product(args.range, bits));
}

/// Returns the random words of Philox block `block` of row `row`.
MSSTREAM_HOST_DEVICE inline PhiloxWords words_of_draw(DrawPlaces const& places,
                                                      RandomState const& state,
                                                      std::int64_t row,
                                                      std::int64_t block) {
  return philox(dropout_counter(block, places.first_sample + row, state.step),
                philox_key(state.seed, places.stream));
}

}  // namespace msstream::ops::kernels
