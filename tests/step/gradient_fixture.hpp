// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ops_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace msstream::testing {

/// Computes the gradient of a function of doubles by central differences, accurate to about 1e-9
/// where the function is smooth.
inline Doubles numeric_gradient(std::function<double(Doubles const&)> const& function, Doubles at) {
  constexpr double kStep = 1e-6;
  Doubles gradient;
  for (auto& x : at) {
    double const middle = x;
    x = middle + kStep;
    double const above = function(at);
    x = middle - kStep;
    double const below = function(at);
    x = middle;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

/// A fixture that compares gradients of operations with references in double, which share no code
/// with the kernels. The result of an operation enters a loss with random labels, so that each of
/// its elements has a different gradient.
template <class R>
class GradientTest : public OpsTest<R> {
 protected:
  using Input = Tensor<float, R>;

  /// Compares the gradient that the tape computes for `op` at a tensor of the given elements with
  /// central differences of `reference`, which is the same function in double.
  void expect_gradient(Floats const& values,
                       Shape const& shape,
                       std::function<Input(GradientTape<R>&, Input const&)> const& op,
                       std::function<Doubles(Doubles const&)> const& reference) {
    auto const x = this->put(values, shape);
    GradientTape tape(this->device());
    auto const result = op(tape, x);
    auto const labels = this->random.reals(result.count(), 0.0F, 1.0F);
    tape.backward(ops::mean_bce_with_logits(tape, result, this->put(labels, result.shape())));
    expect_near(to_host(tape.gradient(x)),
                numeric_gradient([&](Doubles const& at) { return loss(reference(at), labels); },
                                 to_doubles(values)));
  }
  /// Compares the gradient of `op` with that of `reference` at a tensor of random elements.
  void expect_gradient(Shape const& shape,
                       std::function<Input(GradientTape<R>&, Input const&)> const& op,
                       std::function<Doubles(Doubles const&)> const& reference) {
    expect_gradient(this->random.reals(shape.count()), shape, op, reference);
  }

  static double loss(Doubles const& logits, Floats const& labels) {
    double sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      // The logarithm of 1 - sigmoid(x) has no correct digits at large x, where 1 - sigmoid(x) is
      // the difference of nearly equal numbers. This form is accurate at any x.
      double const x = logits[i];
      sum += std::max(x, 0.0) - labels[i] * x + std::log1p(std::exp(-std::abs(x)));
    }
    return sum / static_cast<double>(logits.size());
  }
};

}  // namespace msstream::testing
