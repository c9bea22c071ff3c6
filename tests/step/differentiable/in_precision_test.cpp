// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"
#include "step/gradient_fixture.hpp"

#include <msstream/msstream.hpp>

#include <cstdint>
#include <type_traits>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class InPrecisionTest : public GradientTest<R> {
 protected:
  using Input = Tensor<float, R>;

  /// The output of a function of the tape and its input, and the gradient of the input of its sum.
  struct Result {
    Floats output;
    Floats gradient;

    bool operator==(Result const&) const = default;
  };
  [[nodiscard]] Result result_of(Input const& input, auto const& function) const {
    GradientTape<R> tape(this->device());
    auto const output = function(tape, input);
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(output)>, Input>);
    tape.backward(ops::sum(tape, ops::multiply(tape, output, output)));
    return {to_host(output), to_host(tape.gradient(input))};
  }
};
TYPED_TEST_SUITE(InPrecisionTest, Runtimes, RuntimeNames);

TYPED_TEST(InPrecisionTest, a_cross_network_has_the_bits_of_casts_around_it) {
  using R = TypeParam;
  auto const input = this->random_tensor({9, 24});
  auto const network_of = [&](Precision precision) {
    Parameters<R> parameters(this->device(), {.seed = 5});
    return CrossNetwork<R>(
        parameters, "cross", 24, {.layers = 2, .rank = 8, .precision = precision});
  };
  auto const whole = this->result_of(
      input, [&](auto& tape, auto const& x) { return network_of(Precision::fp32)(tape, x); });
  for (auto const precision : {Precision::bf16, Precision::fp16}) {
    auto const network = network_of(precision);
    auto const found =
        this->result_of(input, [&](auto& tape, auto const& x) { return network(tape, x); });
    auto const plain = network_of(Precision::fp32);
    auto const expected = this->result_of(input, [&](auto& tape, auto const& x) {
      return with_precision(precision, [&](auto type) {
        using T = typename decltype(type)::type;
        return ops::cast<float>(tape, plain(tape, ops::cast<T>(tape, x)));
      });
    });
    EXPECT_EQ(found, expected);
    EXPECT_NE(found, whole) << "nothing was rounded";
    EXPECT_EQ(to_host(network(no_tape, input)), found.output);
    // An input of half precision decides for itself.
    auto const half = ops::cast<bfloat16>(input);
    static_assert(std::is_same_v<decltype(network(no_tape, half)), Tensor<bfloat16, R>>);
  }
}

TYPED_TEST(InPrecisionTest, attention_and_layer_norm_have_the_bits_of_casts_around_them) {
  auto const input = this->random_tensor({3, 8, 16});
  auto const weight = this->random_tensor({16});
  auto const bias = this->random_tensor({16});
  auto const keys = this->random_tensor({3, 8, 16});
  auto const attended = [&](Precision precision) {
    return this->result_of(input, [&](auto& tape, auto const& x) {
      return in_precision(
          tape,
          precision,
          [&](auto const& q, auto const& k) { return ops::attention(tape, q, k, k); },
          x,
          keys);
    });
  };
  auto const normalised = [&](Precision precision) {
    return this->result_of(input, [&](auto& tape, auto const& x) {
      return in_precision(
          tape,
          precision,
          [&](auto const& in) { return ops::layer_norm(tape, in, weight, bias); },
          x);
    });
  };
  EXPECT_EQ(attended(Precision::fp32), this->result_of(input, [&](auto& tape, auto const& x) {
    return ops::attention(tape, x, keys, keys);
  }));
  EXPECT_EQ(normalised(Precision::fp32), this->result_of(input, [&](auto& tape, auto const& x) {
    return ops::layer_norm(tape, x, weight, bias);
  }));
  EXPECT_EQ(attended(Precision::bf16), this->result_of(input, [&](auto& tape, auto const& x) {
    auto const k = ops::cast<bfloat16>(tape, keys);
    return ops::cast<float>(tape, ops::attention(tape, ops::cast<bfloat16>(tape, x), k, k));
  }));
  EXPECT_EQ(normalised(Precision::fp16), this->result_of(input, [&](auto& tape, auto const& x) {
    return ops::cast<float>(tape, ops::layer_norm(tape, ops::cast<float16>(tape, x), weight, bias));
  }));
  EXPECT_NE(attended(Precision::bf16), attended(Precision::fp32));
  EXPECT_NE(normalised(Precision::fp16), normalised(Precision::fp32));
}

}  // namespace
}  // namespace msstream::testing
