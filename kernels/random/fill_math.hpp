// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random/fill.hpp"
#include "random/normal.hpp"

namespace msstream::ops::kernels {

/// Returns the element of a random_fill() that a random word gives, before it is rounded to the
/// array's type.
MSSTREAM_HOST_DEVICE inline float random_element(RandomFillArgs const& args, std::uint32_t word) {
  constexpr double kUnit = 1.0 / 4294967296.0;
  Rounded x{(static_cast<double>(word) + 0.5) * kUnit};  // exact
  if (args.is_normal) {
    x = Rounded{args.first_probability} + Rounded{args.probabilities} * x;
    x.value = inverse_normal(x.value);
  }
  double const element = (Rounded{args.base} + Rounded{args.factor} * x).value;
  return static_cast<float>(element < args.low    ? args.low
                            : element > args.high ? args.high
                                                  : element);
}

}  // namespace msstream::ops::kernels
