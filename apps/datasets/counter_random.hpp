// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/detail/counter_random.hpp>

#include <cmath>
#include <cstdint>
#include <numbers>

/// The generator of the library's loader, with the distributions that the generated data needs.
namespace msstream::datasets {

using data::detail::mix64;
using data::detail::random_bits;

/// Returns a uniform value in [0, 1), from the upper 53 of 64 random bits.
[[nodiscard]] constexpr double uniform_of(std::uint64_t bits) noexcept {
  return static_cast<double>(bits >> 11U) * 0x1p-53;
}

/// Returns a standard normal value from two independent draws (Box and Muller 1958).
[[nodiscard]] inline double normal_of(std::uint64_t bits, std::uint64_t more_bits) noexcept {
  double const radius = std::sqrt(-2.0 * std::log(1.0 - uniform_of(bits)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform_of(more_bits));
}

}  // namespace msstream::datasets
