// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "elementwise/math.hpp"
#include "elementwise/unary.hpp"

#include <cmath>

/// The functions of one element and their gradients, for both the CPU and the CUDA implementation.
namespace msstream::ops::kernels {

/// Returns the sign of x as 1, -1 or 0; NaN stays NaN.
MSSTREAM_HOST_DEVICE inline float sign_of(float x) {
  return x > 0.0F ? 1.0F : (x < 0.0F ? -1.0F : x * 0.0F);
}

struct Square {
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return x * x; }
  MSSTREAM_HOST_DEVICE float gradient(float x, float dy) const { return 2.0F * x * dy; }
};
struct SquareRoot {
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return std::sqrt(x); }
  MSSTREAM_HOST_DEVICE float gradient(float y, float dy) const { return dy / (2.0F * y); }
};
struct Magnitude {
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return std::fabs(x); }
  MSSTREAM_HOST_DEVICE float gradient(float x, float dy) const { return sign_of(x) * dy; }
};
struct SquareRootOfMagnitude {
  float epsilon;
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return std::sqrt(std::fabs(x) + epsilon); }
  MSSTREAM_HOST_DEVICE float gradient(float x, float dy) const {
    // The case x = 0 avoids 0 / 0: if epsilon is 0, the root at x = 0 is 0.
    return x == 0.0F ? 0.0F : sign_of(x) * dy / (2.0F * std::sqrt(std::fabs(x) + epsilon));
  }
};
struct Rectified {
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return rectify(x); }
  MSSTREAM_HOST_DEVICE float gradient(float y, float dy) const { return y > 0.0F ? dy : 0.0F; }
};
struct Exponential {
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return std::exp(x); }
  MSSTREAM_HOST_DEVICE float gradient(float y, float dy) const { return y * dy; }
};
struct Logarithm {
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return std::log(x); }
  MSSTREAM_HOST_DEVICE float gradient(float x, float dy) const { return dy / x; }
};

/// Calls `visit` with the function object that computes `function`.
template <class Visit>
void with_function(UnaryFunction function, float epsilon, Visit const& visit) {
  switch (function) {
    case UnaryFunction::square:
      return visit(Square{});
    case UnaryFunction::sqrt:
      return visit(SquareRoot{});
    case UnaryFunction::abs:
      return visit(Magnitude{});
    case UnaryFunction::sqrt_abs:
      return visit(SquareRootOfMagnitude{epsilon});
    case UnaryFunction::relu:
      return visit(Rectified{});
    case UnaryFunction::exp:
      return visit(Exponential{});
    case UnaryFunction::log:
      return visit(Logarithm{});
  }
}

}  // namespace msstream::ops::kernels
