// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "normalize/batch_norm_math.hpp"
#include "normalize/gates.hpp"

#include <cmath>

/// The formulae of gates that the host and CUDA implementations share.
namespace msstream::ops::kernels {

/// The logistic function of a number and of its negative, from one exponential and one quotient. On
/// CUDA the quotient has an error of one unit in the last place.
struct LogisticPair {
  float of;
  float of_negative;

  explicit MSSTREAM_HOST_DEVICE LogisticPair(float x) {
    float const tail = std::exp(-std::fabs(x));
#if defined(__CUDA_ARCH__)
    float const large = __fdividef(1.0F, 1.0F + tail);
#else
    float const large = 1.0F / (1.0F + tail);
#endif
    float const small = tail * large;
    of = x < 0.0F ? small : large;
    of_negative = x < 0.0F ? large : small;
  }
};

/// PReLU of one column.
struct PreluGate {
  float weight;

  MSSTREAM_HOST_DEVICE PreluGate(float of_column,
                                 ColumnMoments const& /*moments*/,
                                 std::int64_t /*width*/,
                                 std::int64_t /*column*/)
      : weight(of_column) {}

  [[nodiscard]] MSSTREAM_HOST_DEVICE float operator()(float x) const {
    return x > 0.0F ? x : weight * x;
  }
  /// Returns the gradient of an element without what it has through the statistics.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float direct(float x, float dy) const {
    return x > 0.0F ? dy : weight * dy;
  }
  /// Returns the element's term of the gradient of the weight.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float of_weight(float x, float dy) const {
    return x > 0.0F ? 0.0F : x * dy;
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float normal(float /*x*/) const { return 0.0F; }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float of_normal(float /*x*/, float /*dy*/) const {
    return 0.0F;
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float reciprocal() const { return 0.0F; }
};

/// Dice of one column.
struct DiceGate {
  float weight;
  ColumnNorm norm;

  MSSTREAM_HOST_DEVICE DiceGate(float of_column,
                                ColumnMoments const& moments,
                                std::int64_t width,
                                std::int64_t column)
      : weight(of_column), norm(moments, width, column) {}

  [[nodiscard]] MSSTREAM_HOST_DEVICE float share(float x) const {
    return weight + (1.0F - weight) * LogisticPair(norm(x)).of;
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float operator()(float x) const { return x * share(x); }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float direct(float x, float dy) const { return share(x) * dy; }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float of_weight(float x, float dy) const {
    return x * dy * LogisticPair(norm(x)).of_negative;
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float normal(float x) const { return norm(x); }
  /// Returns the gradient of the normalised element.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float of_normal(float x, float dy) const {
    LogisticPair const gate(norm(x));
    return dy * x * (1.0F - weight) * (gate.of * gate.of_negative);
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float reciprocal() const { return norm.reciprocal; }
};

/// Calls visit() with a null pointer to the class of the gate.
template <class Visit>
void with_gate(Gate gate, Visit const& visit) {
  if (gate == Gate::prelu) {
    visit(static_cast<PreluGate const*>(nullptr));
  } else {
    visit(static_cast<DiceGate const*>(nullptr));
  }
}

}  // namespace msstream::ops::kernels
