// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace msstream::data::detail {

/// Computes remainders by a fixed divisor with two multiplications, which processors overlap, in
/// place of a division, which they mostly do not (Granlund and Montgomery, Division by Invariant
/// Integers using Multiplication, 1994, figure 4.1).
class Remainder {
 public:
  /// Takes a divisor of at least 1.
  explicit constexpr Remainder(std::uint64_t divisor) noexcept
      : divisor_(divisor), of_value_(divisor > 1 ? ~std::uint64_t{0} : 0) {
    auto const bits = static_cast<unsigned>(std::bit_width(divisor - 1));  // 2^bits >= divisor
    auto const power = bits < 64 ? std::uint64_t{1} << bits : 0;           // modulo 2^64
    factor_ = static_cast<std::uint64_t>((static_cast<Wide>(power - divisor) << 64U) / divisor) + 1;
    shift_ = bits > 0 ? bits - 1 : 0;
  }

  [[nodiscard]] constexpr std::uint64_t divisor() const noexcept { return divisor_; }
  /// Returns value modulo the divisor.
  [[nodiscard]] constexpr std::uint64_t operator()(std::uint64_t value) const noexcept {
    value &= of_value_;
    auto const high = static_cast<std::uint64_t>((static_cast<Wide>(factor_) * value) >> 64U);
    auto const quotient = (high + ((value - high) >> 1U)) >> shift_;
    return value - quotient * divisor_;
  }

 private:
  __extension__ using Wide = unsigned __int128;

  std::uint64_t divisor_;
  std::uint64_t of_value_;  ///< the bits of a value that matter: none for the divisor 1
  std::uint64_t factor_ = 0;
  unsigned shift_ = 0;
};

}  // namespace msstream::data::detail
