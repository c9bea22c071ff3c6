// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <cmath>

namespace msstream::testing {
namespace {

constexpr float kLayerNormEpsilon = 0.25F;

Doubles layer_norm_of_rows(Doubles const& x, Doubles const& weight, Doubles const& bias) {
  Doubles out;
  auto const width = weight.size();
  for (std::size_t first = 0; first < x.size(); first += width) {
    double mean = 0;
    double variance = 0;
    for (std::size_t c = 0; c < width; ++c) {
      mean += x[first + c] / static_cast<double>(width);
    }
    for (std::size_t c = 0; c < width; ++c) {
      variance += (x[first + c] - mean) * (x[first + c] - mean) / static_cast<double>(width);
    }
    for (std::size_t c = 0; c < width; ++c) {
      out.push_back((x[first + c] - mean) / std::sqrt(variance + double{kLayerNormEpsilon}) *
                        weight[c] +
                    bias[c]);
    }
  }
  return out;
}

template <class R>
class DifferentiableLayerNormTest : public GradientTest<R> {};
TYPED_TEST_SUITE(DifferentiableLayerNormTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableLayerNormTest, by_each_of_its_operands) {
  Shape const shape{2, 2, 5};
  auto const input = this->random.reals(shape.count());
  auto const weight = this->random.reals(5);
  auto const bias = this->random.reals(5);
  this->expect_gradient(
      input,
      shape,
      [&](auto& tape, auto const& x) {
        return ops::layer_norm(tape, x, this->put(weight), this->put(bias), kLayerNormEpsilon);
      },
      [&](Doubles const& x) {
        return layer_norm_of_rows(x, to_doubles(weight), to_doubles(bias));
      });
  this->expect_gradient(
      weight,
      {5},
      [&](auto& tape, auto const& x) {
        return ops::layer_norm(
            tape, this->put(input, shape), x, this->put(bias), kLayerNormEpsilon);
      },
      [&](Doubles const& x) { return layer_norm_of_rows(to_doubles(input), x, to_doubles(bias)); });
  this->expect_gradient(
      bias,
      {5},
      [&](auto& tape, auto const& x) {
        return ops::layer_norm(
            tape, this->put(input, shape), this->put(weight), x, kLayerNormEpsilon);
      },
      [&](Doubles const& x) {
        return layer_norm_of_rows(to_doubles(input), to_doubles(weight), x);
      });
}

}  // namespace
}  // namespace msstream::testing
