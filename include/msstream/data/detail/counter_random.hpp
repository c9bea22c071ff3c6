// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::data::detail {

/// Applies the 64-bit finaliser of MurmurHash3 (Appleby), a bijection in which every input bit
/// affects every output bit.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t value) noexcept {
  value = (value ^ (value >> 33U)) * 0xFF51AFD7ED558CCDULL;
  value = (value ^ (value >> 33U)) * 0xC4CEB9FE1A85EC53ULL;
  return value ^ (value >> 33U);
}

/// Returns draw number `counter` of stream `stream` of the generator `seed`. The generator has no
/// state, so any thread can make any draw, in any order. In `counter` it is a Weyl sequence through
/// a finaliser, as SplitMix64 (Steele, Lea, Flood 2014).
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed,
                                                  std::uint64_t stream,
                                                  std::uint64_t counter) noexcept {
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
  std::uint64_t const start = mix64(mix64(seed + golden) + stream * golden);
  return mix64(start + (counter + 1) * golden);
}

}  // namespace msstream::data::detail
