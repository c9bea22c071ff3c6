// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random/fill.hpp"
#include "random/normal.hpp"
#include "random/quick_normal.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace msstream::ops::kernels {

/// Returns (word + 1/2) / 2^32, which is exact.
MSSTREAM_HOST_DEVICE inline Rounded<double> random_unit(std::uint32_t word) {
  // 2^20 + word / 2^32, by its bits: a conversion takes a GPU as long as eight other instructions.
  std::uint64_t const bits = std::uint64_t{0x41300000U} << 32U | word;
  double above = 0.0;
  std::memcpy(&above, &bits, sizeof(above));
  return Rounded{above} - Rounded{0x1p20 - 0x1p-33};
}

/// Returns the probability below the element of a normal distribution that a random word gives.
MSSTREAM_HOST_DEVICE inline Rounded<double> random_probability(RandomFillArgs const& args,
                                                               std::uint32_t word) {
  return Rounded{args.first_probability} + Rounded{args.probabilities} * random_unit(word);
}

MSSTREAM_HOST_DEVICE inline float clamped(float element, float low, float high) {
  float const above = element < low ? low : element;
  return above > high ? high : above;
}

/// Returns base + factor * x, rounded to float32 and clamped.
MSSTREAM_HOST_DEVICE inline float random_element_of(RandomFillArgs const& args, Rounded<double> x) {
  auto const element = Rounded{args.base} + Rounded{args.factor} * x;
  return clamped(static_cast<float>(element.value), args.low, args.high);
}
/// Returns the element of a random_fill() that a random word gives, before it is rounded to the
/// array's type. `kIsNormal` must be args.is_normal.
template <bool kIsNormal>
MSSTREAM_HOST_DEVICE float random_element(RandomFillArgs const& args, std::uint32_t word) {
  if constexpr (kIsNormal) {
    return random_element_of(args, Rounded{inverse_normal(random_probability(args, word).value)});
  } else {
    return random_element_of(args, random_unit(word));
  }
}
MSSTREAM_HOST_DEVICE inline float random_element(RandomFillArgs const& args, std::uint32_t word) {
  return args.is_normal ? random_element<true>(args, word) : random_element<false>(args, word);
}

/// Sets each of `elements` to random_element() of a normal distribution. Returns bit k for each of
/// which that takes inverse_normal(), and which is not set: one element in about 2,200.
template <int Count>
MSSTREAM_HOST_DEVICE unsigned quick_normal_elements(RandomFillArgs const& args,
                                                    std::uint32_t const (&words)[Count],
                                                    float (&elements)[Count]) {
  // Bounds the roundings of random_element() and of the sum below, relative to the mean. Those
  // relative to the deviation from the mean are small beside kQuickNormalError.
  constexpr double kRoundings = 0x1p-50;
  double const least_error = std::abs(args.base) * kRoundings;
  float const low = args.low;
  float const high = args.high;
  double from_half[Count];
  for (int k = 0; k < Count; ++k) {
    from_half[k] = (random_probability(args, words[k]) - Rounded{0.5}).value;
  }
  double z[Count];
  unsigned pending = quick_inverse_normal(from_half, z);
  for (int k = 0; k < Count; ++k) {
    double const deviation = args.factor * z[k];
    double const element = args.base + deviation;
    double const error = std::abs(deviation) * kQuickNormalError + least_error;
    auto const from = static_cast<float>(element - error);
    auto const to = static_cast<float>(element + error);
    elements[k] = clamped(from, low, high);
    pending |= (from == to ? 0U : 1U) << static_cast<unsigned>(k);
  }
  return pending;
}

}  // namespace msstream::ops::kernels
