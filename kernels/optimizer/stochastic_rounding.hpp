// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/philox.hpp"

#include <msstream/base/dtype.hpp>

#include <bit>
#include <cstdint>
#include <type_traits>

/// Stochastic rounding of weights of 16 bits: a float between two neighbours becomes the upper one
/// with a probability that is its distance from the lower one in units of their distance, so that
/// the mean over the random bits is the float (Gupta et al., Deep Learning with Limited Numerical
/// Precision, ICML 2015, section 3). The CPU and the CUDA implementation give the same bits.
namespace msstream::ops::kernels {

/// How the updated weights of a table are rounded to float16 or bfloat16. Tables of float32 are not
/// rounded.
struct RowRounding {
  bool is_stochastic = false;  ///< otherwise to nearest, ties to even
  std::uint64_t key = 0;       ///< rounding_key() of the table
  std::int64_t first_row = 0;  ///< of a part of a table: its first row in the whole table
};

/// Returns whether the weights of a table of a type are rounded stochastically.
[[nodiscard]] constexpr bool is_stochastic(RowRounding const& rounding, DType dtype) {
  return rounding.is_stochastic && dtype != DType::float32;
}

/// Returns the key of a table's random bits. It differs from all keys of other random numbers of
/// the seed, such as those of dropout.
[[nodiscard]] inline std::uint64_t rounding_key(std::uint64_t seed, std::uint64_t stream) {
  return philox_key(~seed, stream);
}

/// Returns the random words of the columns [4 block, 4 block + 4) of a row in a step. Rows are
/// those of the whole table, below kMostSamples.
MSSTREAM_HOST_DEVICE inline PhiloxWords rounding_words(std::uint64_t key,
                                                       std::int64_t step,
                                                       std::int64_t row,
                                                       std::int64_t block) {
  return philox(dropout_counter(block, row, step), key);
}

/// Rounds a float to one of its two neighbours of type T, or to itself if T has it: upwards in
/// magnitude if `random`, one of 2^32 numbers, is below 2^32 times its distance from the neighbour
/// towards zero. From the largest finite number on, rounds to nearest, as from_float() does, so
/// that random bits never make a number infinite that nearest would not. NaN stays NaN.
///
/// The probability is exact for bfloat16, and for float16 from 2^-14 on; below, it is rounded down
/// by less than 2^-32.
template <HalfElement T>
MSSTREAM_HOST_DEVICE T stochastically_rounded(float value, std::uint32_t random) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t const magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t const sign = bits >> 16U & 0x8000U;
  constexpr bool kIsFloat16 = std::is_same_v<T, float16>;
  constexpr std::uint32_t kLargest = kIsFloat16 ? 0x477FE000U : 0x7F7F0000U;
  if (magnitude >= kLargest) {
    return from_float<T>(value);
  }
  std::uint32_t lower = 0;     // the bits of the neighbour towards zero
  std::uint32_t fraction = 0;  // 2^32 times the distance from it, in units of the last place
  if constexpr (kIsFloat16) {
    // A multiple of 2^-24 is the difference of neighbours below 2^-14, where the exponent is 0.
    constexpr std::uint32_t kSmallestNormal = 113;  // the exponent bits of 2^-14
    std::uint32_t const exponent = magnitude >> 23U;
    bool const is_normal = exponent >= kSmallestNormal;
    std::uint64_t const digits = (magnitude & 0x7FFFFFU) | (exponent > 0 ? 0x800000U : 0U);
    std::uint32_t const shift = is_normal ? 13U : 126U - (exponent > 0 ? exponent : 1U);
    std::uint64_t const places = (digits << 32U) >> (shift < 63U ? shift : 63U);
    lower = (is_normal ? (exponent - kSmallestNormal) << 10U : 0U) +
            static_cast<std::uint32_t>(places >> 32U);
    fraction = static_cast<std::uint32_t>(places);
  } else {
    lower = magnitude >> 16U;
    fraction = magnitude << 16U;
  }
  return {static_cast<std::uint16_t>(sign | (lower + (random < fraction ? 1U : 0U)))};
}

}  // namespace msstream::ops::kernels
