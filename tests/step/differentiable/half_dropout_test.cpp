// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"
#include "step/gradient_fixture.hpp"

#include <msstream/msstream.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace msstream::testing {
namespace {

template <class R>
class HalfDropoutTest : public GradientTest<R> {
 protected:
  struct Dropped {
    Doubles output;
    Doubles gradient;

    bool operator==(Dropped const&) const = default;
  };
  /// Drops elements of a half tensor by `drop(tape, x, random)`, by a generator in its first state,
  /// and returns the output and the gradient of the sum of its squares.
  template <class T>
  [[nodiscard]] Dropped dropped(Tensor<T, R> const& x, auto const& drop) const {
    RandomGenerator<R> const random(this->device(), {.seed = 9});
    GradientTape<R> tape(this->device());
    auto const y = drop(tape, x, random);
    static_assert(std::is_same_v<decltype(y), Tensor<T, R> const>);
    auto const wide = ops::cast<float>(tape, y);
    tape.backward(ops::sum(tape, ops::multiply(tape, wide, wide)));
    return {to_doubles(to_host(y)), to_doubles(to_host(tape.gradient(x)))};
  }
  template <class T>
  void expect_bits_of_floats() {
    constexpr std::int64_t kSamples = 11;
    constexpr std::int64_t kColumns = 37;
    auto const x = this->put(rounded_to<T>(this->random.reals(kSamples * kColumns, 0.5F, 2.0F)),
                             {kSamples, kColumns});
    ops::DropoutOptions const options{.rate = 0.4F, .first_sample = 3};
    auto const found = this->template dropped<T>(x, [&](auto& tape, auto const& in, auto& random) {
      return ops::dropout(tape, in, options, random, "a");
    });
    auto const by_floats =
        this->template dropped<T>(x, [&](auto& tape, auto const& in, auto& random) {
          auto const wide = ops::cast<float>(tape, in);
          return ops::cast<T>(tape, ops::dropout(tape, wide, options, random, "a"));
        });
    EXPECT_EQ(found, by_floats);
    auto const zeros = std::ranges::count(found.output, 0.0);
    EXPECT_GT(zeros, kSamples * kColumns / 4);
    EXPECT_LT(zeros, kSamples * kColumns / 2);
    EXPECT_EQ(
        ops::dropout(no_tape, x, options, RandomGenerator<R>(this->device(), {.seed = 9}), "a")
            .data(),
        x.data());
  }
};
TYPED_TEST_SUITE(HalfDropoutTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfDropoutTest, has_the_bits_of_a_dropout_of_floats_rounded_once) {
  this->template expect_bits_of_floats<float16>();
  this->template expect_bits_of_floats<bfloat16>();
}

}  // namespace
}  // namespace msstream::testing
