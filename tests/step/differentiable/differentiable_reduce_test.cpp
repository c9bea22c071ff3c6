// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace msstream::testing {
namespace {

template <class R>
class DifferentiableReduceTest : public GradientTest<R> {
 protected:
  using Input = Tensor<float, R>;
  using Op = std::function<Input(
      GradientTape<R>&, Input const&, std::int64_t axis, ops::ReduceOptions options)>;

  /// Compares gradients of reductions along each axis of a tensor [3, 4, 5]. The elements are so
  /// far apart that the small changes of numeric differentiation do not change which one is the
  /// extremum.
  void check(Op const& op, std::function<double(Doubles const& along)> const& function) {
    Floats values(60);
    std::iota(values.begin(), values.end(), 0.0F);
    std::ranges::transform(values, values.begin(), [](float v) { return v / 16 - 2; });
    for (std::size_t i = values.size() - 1; i > 0; --i) {
      auto const other = this->random.integer(0, static_cast<std::int64_t>(i));
      std::swap(values[i], values[static_cast<std::size_t>(other)]);
    }
    std::size_t const extents[] = {3, 4, 5};
    for (std::size_t dimension = 0; dimension < 3; ++dimension) {
      std::size_t inner = 1;
      for (std::size_t d = dimension + 1; d < 3; ++d) {
        inner *= extents[d];
      }
      for (bool const kept : {false, true}) {
        SCOPED_TRACE(fmt::format("dimension {}", dimension));
        auto const axis = static_cast<std::int64_t>(dimension) - (kept ? 3 : 0);
        this->expect_gradient(
            values,
            {3, 4, 5},
            [&](auto& tape, auto const& x) { return op(tape, x, axis, {.keep_dimension = kept}); },
            [&](Doubles const& x) {
              Doubles out;
              for (std::size_t outer = 0; outer < x.size(); outer += extents[dimension] * inner) {
                for (std::size_t i = 0; i < inner; ++i) {
                  Doubles along;
                  for (std::size_t a = 0; a < extents[dimension]; ++a) {
                    along.push_back(x[outer + a * inner + i]);
                  }
                  out.push_back(function(along));
                }
              }
              return out;
            });
      }
    }
  }
};
TYPED_TEST_SUITE(DifferentiableReduceTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableReduceTest, sum) {
  this->check(
      [](auto& tape, auto const& x, auto axis, auto options) {
        return ops::sum(tape, x, axis, options);
      },
      [](Doubles const& x) { return std::accumulate(x.begin(), x.end(), 0.0); });
}

TYPED_TEST(DifferentiableReduceTest, mean) {
  this->check(
      [](auto& tape, auto const& x, auto axis, auto options) {
        return ops::mean(tape, x, axis, options);
      },
      [](Doubles const& x) {
        return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
      });
}

TYPED_TEST(DifferentiableReduceTest, max) {
  this->check(
      [](auto& tape, auto const& x, auto axis, auto options) {
        return ops::max(tape, x, axis, options);
      },
      [](Doubles const& x) { return *std::ranges::max_element(x); });
}

TYPED_TEST(DifferentiableReduceTest, min) {
  this->check(
      [](auto& tape, auto const& x, auto axis, auto options) {
        return ops::min(tape, x, axis, options);
      },
      [](Doubles const& x) { return *std::ranges::min_element(x); });
}

}  // namespace
}  // namespace msstream::testing
