// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <cstdint>
#include <cstring>

/// An approximation of inverse_normal() for the middle of the distribution, which takes a GPU a
/// fraction of its instructions. It finds the float to which a result is rounded in all but a few
/// cases, and those it recognises (Ziv, Fast Evaluation of Elementary Mathematical Functions with
/// Correctly Rounded Last Bit, 1991).
namespace msstream::ops::kernels {

/// A bound of the difference between quick_inverse_normal() and inverse_normal(), relative to
/// either. The largest of all 2^32 words of random_unit() is 2^-37.5.
inline constexpr double kQuickNormalError = 0x1p-37;

/// Replaces each x by low[0] + low[1] x + … + high[0] x^Low + …, whose float32 terms must be small.
/// Several polynomials at once share the loads of their coefficients.
template <int Low, int High, int Count>
MSSTREAM_HOST_DEVICE void mixed_polynomial(double const (&low)[Low],
                                           float const (&high)[High],
                                           double (&x)[Count]) {
  double sums[Count];
  for (int k = 0; k < Count; ++k) {
    auto const rounded = static_cast<float>(x[k]);
    float small = high[High - 1];
    for (int i = High - 2; i >= 0; --i) {
      small = small * rounded + high[i];
    }
    sums[k] = small;
  }
  for (int i = Low - 1; i >= 0; --i) {
    for (int k = 0; k < Count; ++k) {
      sums[k] = sums[k] * x[k] + low[i];
    }
  }
  for (int k = 0; k < Count; ++k) {
    x[k] = sums[k];
  }
}

/// Sets each z[k] to inverse_normal(0.5 + from_half[k]), with a relative error of at most
/// kQuickNormalError. Returns bit k for each that it does not compute, because it is further from 0
/// than all but one in 3,600 normal numbers. How multiplications and additions are contracted does
/// not matter.
///
/// With t = -log(1 - (2 from_half)^2), z / from_half is a smooth function of t (Giles,
/// Approximating the erfinv Function, 2011). It and log(1 + x) / x are minimax polynomials.
template <int Count>
MSSTREAM_HOST_DEVICE unsigned quick_inverse_normal(double const (&from_half)[Count],
                                                   double (&z)[Count]) {
  constexpr double kLog2 = 0.693147180559945309417;
  constexpr double kCentre = 3.5;                   // of the range of t, [0, 7.5]
  constexpr std::int32_t kRootOfHalf = 0x3FE6A09F;  // the upper word of sqrt(1 / 2)
  constexpr std::int32_t kLeast = 0x3F221F9B;       // the upper word of exp(-7.5) / 4
  constexpr double kLogLow[] = {0.9999999999204913,
                                -0.50000000081107941,
                                0.33333335758810647,
                                -0.24999989059405656,
                                0.19999795404933041,
                                -0.16667068176441071,
                                0.14293129495353476};
  constexpr float kLogHigh[] = {-0.12497152792416909F,
                                0.10981185627149617F,
                                -0.099052723218874744F,
                                0.10131939111821032F,
                                -0.10034966586804988F,
                                0.053602525474480961F};
  constexpr double kRatioLow[] = {4.9294674253775051,
                                  0.6656941086354316,
                                  -0.018998733183331162,
                                  -0.0013612751737728542,
                                  0.00044848166110037881,
                                  -4.468480868336912e-05,
                                  -1.0812840962110605e-06,
                                  9.0986839085703032e-07,
                                  -1.0437242198017258e-07,
                                  -1.9937151704565297e-09,
                                  2.123928410094783e-09,
                                  -2.4404981814821168e-10,
                                  -7.6333168624085318e-12};
  constexpr float kRatioHigh[] = {5.2481071411396877e-12F,
                                  -4.1407910544358041e-13F,
                                  -3.5553230445896951e-14F,
                                  6.6055365401779832e-15F,
                                  -2.0217410583950037e-16F};
  // Each quarter of 1 - (2 from_half)^2 is 2^exponent times a mantissa in [sqrt(1 / 2), sqrt(2)).
  unsigned far = 0;
  double log_of_exponent[Count];
  double rest[Count];
  double log[Count];
  for (int k = 0; k < Count; ++k) {
    double const quarter = 0.25 - from_half[k] * from_half[k];
    std::uint64_t bits = 0;
    std::memcpy(&bits, &quarter, sizeof(bits));
    auto const upper = static_cast<std::int32_t>(bits >> 32U);
    far |= static_cast<unsigned>(upper <= kLeast) << static_cast<unsigned>(k);
    auto const exponent = (upper - kRootOfHalf) >> 20;
    log_of_exponent[k] = static_cast<double>(exponent) * kLog2 + (2.0 * kLog2 + kCentre);
    auto const mantissa =
        static_cast<std::uint32_t>(upper) - (static_cast<std::uint32_t>(exponent) << 20U);
    bits = std::uint64_t{mantissa} << 32U | static_cast<std::uint32_t>(bits);
    std::memcpy(&rest[k], &bits, sizeof(bits));
    rest[k] -= 1.0;
    log[k] = rest[k];
  }
  mixed_polynomial(kLogLow, kLogHigh, log);
  for (int k = 0; k < Count; ++k) {
    z[k] = -(rest[k] * log[k] + log_of_exponent[k]);
  }
  mixed_polynomial(kRatioLow, kRatioHigh, z);
  for (int k = 0; k < Count; ++k) {
    z[k] = from_half[k] * z[k];
  }
  return far;
}

}  // namespace msstream::ops::kernels
