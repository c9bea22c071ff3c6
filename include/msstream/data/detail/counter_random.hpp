// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

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

/// Returns a uniform value in [0, 1), from the upper 53 of 64 random bits.
[[nodiscard]] constexpr double uniform_of(std::uint64_t bits) noexcept {
  return static_cast<double>(bits >> 11U) * 0x1p-53;
}

/// Returns a standard normal value from two independent draws (Box and Muller 1958).
[[nodiscard]] inline double normal_of(std::uint64_t bits, std::uint64_t more_bits) noexcept {
  double const radius = std::sqrt(-2.0 * std::log(1.0 - uniform_of(bits)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform_of(more_bits));
}

}  // namespace msstream::data::detail
