// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/rounded.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>

/// The inverse of the normal distribution, computed in float64 by additions, multiplications,
/// divisions and roots that are rounded one by one and never contracted, so that the host and CUDA
/// give the same bits.
namespace msstream::ops::kernels {

/// Returns the polynomial coefficients[0] + coefficients[1] x + …, by Horner's rule.
template <int Count>
MSSTREAM_HOST_DEVICE Rounded<double> polynomial(double const (&coefficients)[Count],
                                                Rounded<double> x) {
  Rounded sum{coefficients[Count - 1]};
  for (int i = Count - 2; i >= 0; --i) {
    sum = sum * x + Rounded{coefficients[i]};
  }
  return sum;
}

/// Returns the natural logarithm of a positive normal double, with an error of a few units in the
/// last place: log(2^e m) = e log 2 + 2 artanh((m - 1) / (m + 1)).
MSSTREAM_HOST_DEVICE inline Rounded<double> rounded_log(double x) {
  constexpr double kLog2 = 0.693147180559945309417;
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52U) - 1;
  constexpr std::uint64_t kRootOfHalf = 0x3FE6A09E667F3BCDULL;  // the bits of sqrt(1 / 2)
  constexpr std::uint64_t kOne = 0x3FF0000000000000ULL;
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  // Chooses the exponent so that the rest m is in [sqrt(1 / 2), sqrt(2)).
  bits += kOne - kRootOfHalf;
  auto const exponent = static_cast<std::int64_t>(bits >> 52U) - 1023;
  bits = (bits & kMantissa) + kRootOfHalf;
  double rest = 0.0;
  std::memcpy(&rest, &bits, sizeof(rest));
  constexpr double kSeries[] = {1.0,
                                1.0 / 3,
                                1.0 / 5,
                                1.0 / 7,
                                1.0 / 9,
                                1.0 / 11,
                                1.0 / 13,
                                1.0 / 15,
                                1.0 / 17,
                                1.0 / 19,
                                1.0 / 21,
                                1.0 / 23};
  Rounded const m{rest};
  Rounded const one{1.0};
  auto const s = (m - one) / (m + one);
  return Rounded{static_cast<double>(exponent)} * Rounded{kLog2} +
         Rounded{2.0} * s * polynomial(kSeries, s * s);
}

/// Returns the z below which a standard normal variable is with the given probability, a number in
/// (0, 1), with an error of about 1e-15, relative (Wichura, Algorithm AS 241: The percentage points
/// of the normal distribution, 1988, PPND16).
MSSTREAM_HOST_DEVICE inline double inverse_normal(double probability) {
  constexpr double kCentre = 0.425;
  constexpr double kCentreSquared = 0.180625;
  constexpr double kA[] = {3.3871328727963666080e0,
                           1.3314166789178437745e2,
                           1.9715909503065514427e3,
                           1.3731693765509461125e4,
                           4.5921953931549871457e4,
                           6.7265770927008700853e4,
                           3.3430575583588128105e4,
                           2.5090809287301226727e3};
  constexpr double kB[] = {1.0,
                           4.2313330701600911252e1,
                           6.8718700749205790830e2,
                           5.3941960214247511077e3,
                           2.1213794301586595867e4,
                           3.9307895800092710610e4,
                           2.8729085735721942674e4,
                           5.2264952788528545610e3};
  constexpr double kC[] = {1.42343711074968357734e0,
                           4.63033784615654529590e0,
                           5.76949722146069140550e0,
                           3.64784832476320460504e0,
                           1.27045825245236838258e0,
                           2.41780725177450611770e-1,
                           2.27238449892691845833e-2,
                           7.74545014278341407640e-4};
  constexpr double kD[] = {1.0,
                           2.05319162663775882187e0,
                           1.67638483018380384940e0,
                           6.89767334985100004550e-1,
                           1.48103976427480074590e-1,
                           1.51986665636164571966e-2,
                           5.47593808499534494600e-4,
                           1.05075007164441684324e-9};
  constexpr double kE[] = {6.65790464350110377720e0,
                           5.46378491116411436990e0,
                           1.78482653991729133580e0,
                           2.96560571828504891230e-1,
                           2.65321895265761230930e-2,
                           1.24266094738807843860e-3,
                           2.71155556874348757815e-5,
                           2.01033439929228813265e-7};
  constexpr double kF[] = {1.0,
                           5.99832206555887937690e-1,
                           1.36929880922735805310e-1,
                           1.48753612908506148525e-2,
                           7.86869131145613259100e-4,
                           1.84631831751005468180e-5,
                           1.42151175831644588870e-7,
                           2.04426310338993978564e-15};
  Rounded const from_half = Rounded{probability} - Rounded{0.5};
  if (from_half.value >= -kCentre && from_half.value <= kCentre) {
    auto const r = Rounded{kCentreSquared} - from_half * from_half;
    return (from_half * polynomial(kA, r) / polynomial(kB, r)).value;
  }
  bool const is_low = from_half.value < 0.0;
  double const tail = is_low ? probability : (Rounded{1.0} - Rounded{probability}).value;
  auto const r = root(Rounded{-rounded_log(tail).value});
  Rounded<double> z{};
  if (r.value <= 5.0) {
    auto const x = r - Rounded{1.6};
    z = polynomial(kC, x) / polynomial(kD, x);
  } else {
    auto const x = r - Rounded{5.0};
    z = polynomial(kE, x) / polynomial(kF, x);
  }
  return is_low ? -z.value : z.value;
}

}  // namespace msstream::ops::kernels
