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

struct HyperbolicTangent {
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return std::tanh(x); }
  MSSTREAM_HOST_DEVICE float gradient(float y, float dy) const { return (1.0F - y * y) * dy; }
};
struct Gelu {
  /// Returns Φ(x) without loss of digits in the lower tail.
  static MSSTREAM_HOST_DEVICE float probability(float x) {
    constexpr float kRootOfHalf = 0.70710678118654752F;
    return 0.5F * std::erfc(-x * kRootOfHalf);
  }
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return x * probability(x); }
  MSSTREAM_HOST_DEVICE float gradient(float x, float dy) const {
    constexpr float kDensityAt0 = 0.39894228040143268F;
    return (probability(x) + x * (kDensityAt0 * std::exp(-0.5F * x * x))) * dy;
  }
};
struct GeluByTangent {
  static constexpr float kSlope = 1.59576912160573071F;  ///< 2 sqrt(2 / π)
  static constexpr float kCube = 0.044715F;
  // (1 + tanh(u)) / 2 is the logistic function of 2 u, which keeps the digits of small results.
  static MSSTREAM_HOST_DEVICE float gate(float x) {
    return logistic(kSlope * (x + kCube * x * x * x));
  }
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return x * gate(x); }
  MSSTREAM_HOST_DEVICE float gradient(float x, float dy) const {
    float const g = gate(x);
    float const slope = g * (1.0F - g);
    // The case of a slope of 0 avoids 0 * infinity for large x.
    float const bend = slope == 0.0F ? 0.0F : slope * x * kSlope * (1.0F + 3.0F * kCube * x * x);
    return (g + bend) * dy;
  }
};
struct Silu {
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return x * logistic(x); }
  MSSTREAM_HOST_DEVICE float gradient(float x, float dy) const {
    float const g = logistic(x);
    return g * (1.0F + x * (1.0F - g)) * dy;
  }
};
struct Sigmoid {
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return logistic(x); }
  MSSTREAM_HOST_DEVICE float gradient(float y, float dy) const { return y * (1.0F - y) * dy; }
};
struct Clamp {
  float low;
  float high;
  MSSTREAM_HOST_DEVICE float operator()(float x) const {
    return x < low ? low : (x > high ? high : x);
  }
  MSSTREAM_HOST_DEVICE float gradient(float x, float dy) const {
    return x < low || x > high ? 0.0F : dy;
  }
};
struct AddScalar {
  float term;
  MSSTREAM_HOST_DEVICE float operator()(float x) const { return x + term; }
  MSSTREAM_HOST_DEVICE float gradient(float /*x*/, float dy) const { return dy; }
};

/// Calls `visit` with the function object that computes `function`.
template <class Visit>
void with_function(UnaryFunction function, float parameter, float limit, Visit const& visit) {
  switch (function) {
    case UnaryFunction::square:
      return visit(Square{});
    case UnaryFunction::sqrt:
      return visit(SquareRoot{});
    case UnaryFunction::abs:
      return visit(Magnitude{});
    case UnaryFunction::sqrt_abs:
      return visit(SquareRootOfMagnitude{parameter});
    case UnaryFunction::relu:
      return visit(Rectified{});
    case UnaryFunction::exp:
      return visit(Exponential{});
    case UnaryFunction::log:
      return visit(Logarithm{});
    case UnaryFunction::tanh:
      return visit(HyperbolicTangent{});
    case UnaryFunction::gelu:
      return visit(Gelu{});
    case UnaryFunction::gelu_tanh:
      return visit(GeluByTangent{});
    case UnaryFunction::silu:
      return visit(Silu{});
    case UnaryFunction::sigmoid:
      return visit(Sigmoid{});
    case UnaryFunction::clamp:
      return visit(Clamp{parameter, limit});
    case UnaryFunction::add_scalar:
      return visit(AddScalar{parameter});
  }
}

}  // namespace msstream::ops::kernels
