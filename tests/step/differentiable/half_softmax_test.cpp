// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"
#include "step/gradient_fixture.hpp"

#include <msstream/msstream.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class HalfSoftmaxTest : public GradientTest<R> {
 protected:
  /// Compares the softmax of type T and its gradient with double. `lengths` is empty, or has the
  /// number of columns of each row that take part.
  template <class T>
  void expect_softmax(std::int64_t rows,
                      std::int64_t columns,
                      std::vector<std::int64_t> const& lengths) {
    auto const values = rounded_to<T>(this->random.reals(rows * columns, -4.0F, 4.0F));
    auto const x = this->put(values, {rows, columns});
    auto const of_rows = lengths.empty() ? std::nullopt : std::optional(this->put(lengths, {rows}));
    auto const softmax_on = [&](auto& tape) {
      return of_rows ? ops::softmax(tape, x, *of_rows) : ops::softmax(tape, x);
    };
    GradientTape tape(this->device());
    auto const y = softmax_on(tape);
    static_assert(std::is_same_v<decltype(y), Tensor<T, R> const>);
    auto const wide = ops::cast<float>(tape, y);
    tape.backward(ops::sum(tape, ops::multiply(tape, wide, wide)));
    auto const given = to_doubles(to_host(y));
    auto const without_tape = to_doubles(to_host(softmax_on(no_tape)));
    EXPECT_EQ(without_tape, given);

    auto const in = to_doubles(values);
    Doubles outputs(in.size(), 0.0);
    Doubles gradients(in.size(), 0.0);
    Doubles output_bounds;
    Doubles gradient_bounds;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      auto const first = row * static_cast<std::size_t>(columns);
      auto const length = lengths.empty() ? static_cast<std::size_t>(columns)
                                          : static_cast<std::size_t>(lengths[row]);
      double sum = 0;
      double total = 0;  // of y * dy, where dy = 2 y
      for (std::size_t c = first; c < first + length; ++c) {
        outputs[c] = std::exp(in[c]);
        sum += outputs[c];
        total += 2 * given[c] * given[c];
      }
      for (std::size_t c = first; c < first + static_cast<std::size_t>(columns); ++c) {
        outputs[c] /= sum == 0 ? 1 : sum;
        gradients[c] = given[c] * (2 * given[c] - total);
        output_bounds.push_back(rounding_bound<T>(outputs[c], kFloatError * outputs[c]));
        gradient_bounds.push_back(
            rounding_bound<T>(gradients[c], kFloatError * given[c] * (2 * given[c] + total)));
      }
    }
    expect_bounded(to_host(y), outputs, output_bounds);
    expect_bounded(to_host(tape.gradient(x)), gradients, gradient_bounds);
  }
};
TYPED_TEST_SUITE(HalfSoftmaxTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfSoftmaxTest, and_its_gradient_agree_with_double) {
  for (std::int64_t const columns : {1, 7, 64, 513}) {
    this->template expect_softmax<float16>(9, columns, {});
    this->template expect_softmax<bfloat16>(9, columns, {});
  }
}

TYPED_TEST(HalfSoftmaxTest, of_the_first_columns_leaves_the_others_at_zero) {
  this->template expect_softmax<float16>(4, 24, {0, 1, 13, 24});
  this->template expect_softmax<bfloat16>(4, 24, {24, 0, 5, 2});
}

}  // namespace
}  // namespace msstream::testing
