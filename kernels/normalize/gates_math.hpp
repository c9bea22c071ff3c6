// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "elementwise/math.hpp"
#include "normalize/batch_norm_math.hpp"
#include "normalize/gates.hpp"

/// The formulae of gates that the host and CUDA implementations share.
namespace msstream::ops::kernels {

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
    return weight + (1.0F - weight) * logistic(norm(x));
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float operator()(float x) const { return x * share(x); }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float direct(float x, float dy) const { return share(x) * dy; }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float of_weight(float x, float dy) const {
    return x * dy * logistic(-norm(x));
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float normal(float x) const { return norm(x); }
  /// Returns the gradient of the normalised element.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float of_normal(float x, float dy) const {
    float const n = norm(x);
    return dy * x * (1.0F - weight) * (logistic(n) * logistic(-n));
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
