// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

namespace msstream::testing {
namespace {

template <class R>
class DifferentiableMatrixTest : public GradientTest<R> {};
TYPED_TEST_SUITE(DifferentiableMatrixTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableMatrixTest, transpose_of_a_batch) {
  this->expect_gradient(
      {2, 3, 4},
      [](auto& tape, auto const& x) { return ops::transpose(tape, x); },
      [](Doubles const& x) {
        Doubles out(x.size());
        for (std::size_t b = 0; b < 2; ++b) {
          for (std::size_t row = 0; row < 3; ++row) {
            for (std::size_t column = 0; column < 4; ++column) {
              out[(b * 4 + column) * 3 + row] = x[(b * 3 + row) * 4 + column];
            }
          }
        }
        return out;
      });
}

TYPED_TEST(DifferentiableMatrixTest, add_identity) {
  this->expect_gradient(
      {3, 3},
      [](auto& tape, auto const& x) { return ops::add_identity(tape, x, 0.5F); },
      [](Doubles x) {
        for (std::size_t row = 0; row < 3; ++row) {
          x[4 * row] += 0.5;
        }
        return x;
      });
}

}  // namespace
}  // namespace msstream::testing
