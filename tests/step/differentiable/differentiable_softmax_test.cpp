// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <cmath>

namespace msstream::testing {
namespace {

/// Computes, for each row, the softmax over its leading lengths[row] columns.
Doubles softmax_of_rows(Doubles const& x, std::size_t columns, Integers const& lengths) {
  Doubles out(x.size(), 0.0);
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    auto const first = row * columns;
    auto const last = first + static_cast<std::size_t>(lengths[row]);
    double sum = 0;
    for (auto i = first; i < last; ++i) {
      sum += std::exp(x[i]);
    }
    for (auto i = first; i < last; ++i) {
      out[i] = std::exp(x[i]) / sum;
    }
  }
  return out;
}

template <class R>
class DifferentiableSoftmaxTest : public GradientTest<R> {};
TYPED_TEST_SUITE(DifferentiableSoftmaxTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableSoftmaxTest, softmax) {
  this->expect_gradient(
      {3, 4},
      [](auto& tape, auto const& x) { return ops::softmax(tape, x); },
      [](Doubles const& x) {
        return softmax_of_rows(x, 4, {4, 4, 4});
      });
}

TYPED_TEST(DifferentiableSoftmaxTest, softmax_with_lengths) {
  this->expect_gradient(
      {4, 5},
      [&](auto& tape, auto const& x) {
        return ops::softmax(tape, x, this->put(Integers{3, 0}));
      },
      [](Doubles const& x) {
        return softmax_of_rows(x, 5, {3, 3, 0, 0});
      });
}

TYPED_TEST(DifferentiableSoftmaxTest, mean_softmax_cross_entropy) {
  Integers const classes = {2, 0, 3, 1};  // class 3 is out of range
  this->expect_gradient(
      {4, 3},
      [&](auto& tape, auto const& x) {
        return ops::mean_softmax_cross_entropy(tape, x, this->put(classes));
      },
      [&](Doubles const& x) {
        double sum = 0;
        for (std::size_t row : {0U, 1U, 3U}) {
          double exponentials = 0;
          for (std::size_t c = 0; c < 3; ++c) {
            exponentials += std::exp(x[3 * row + c]);
          }
          sum += std::log(exponentials) - x[3 * row + static_cast<std::size_t>(classes[row])];
        }
        return Doubles{sum / 4};
      });
}

}  // namespace
}  // namespace msstream::testing
