// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"
#include "step/gradient_fixture.hpp"

#include <msstream/ops/mixture.hpp>

#include <fmt/core.h>

#include <cmath>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class HalfMixtureTest : public HalfTest<R> {
 protected:
  /// Compares a mixture of three experts, one alone and two stacked, by the gates {0, 1, 2} and {2,
  /// 0} with double, and its gradients.
  template <class T>
  void expect_mixture(std::int64_t batch, std::int64_t width) {
    SCOPED_TRACE(fmt::format("{} x {} of {}", batch, width, name_of(dtype_of<T>)));
    auto const alone = this->template operand<T>({batch, width});
    auto const stacked = this->template operand<T>({2, batch, width});
    auto const first_logits = this->template operand<float>({batch, 3});
    auto const second_logits = this->template operand<float>({batch, 2});
    auto const dy = this->template operand<T>({2, batch, width});
    std::vector<ops::GateLogits<R>> const gates{{first_logits.tensor, {{0, 1, 2}}},
                                                {second_logits.tensor, {{2, 0}}}};
    std::vector const experts{alone.tensor, stacked.tensor};
    auto const expert = [&](int number, std::int64_t row, std::int64_t column) {
      auto const place = row * width + column;
      return number == 0 ? alone.at(place) : stacked.at((number - 1) * batch * width + place);
    };
    Doubles output(dy.values.size(), 0.0);
    auto output_magnitudes = output;
    std::vector<Doubles> gradients(3, Doubles(static_cast<std::size_t>(batch * width), 0.0));
    auto gradient_magnitudes = gradients;
    std::vector<Doubles> of_logits(2);
    std::vector<Doubles> logits_magnitudes(2);
    std::vector<std::vector<int>> const chosen{{0, 1, 2}, {2, 0}};
    for (std::int64_t gate = 0; gate < 2; ++gate) {
      auto const& choices = chosen[static_cast<std::size_t>(gate)];
      auto const& logits = gate == 0 ? first_logits : second_logits;
      auto const count = static_cast<std::int64_t>(choices.size());
      for (std::int64_t row = 0; row < batch; ++row) {
        double sum = 0;
        Doubles weights;
        for (std::int64_t k = 0; k < count; ++k) {
          weights.push_back(std::exp(logits.at(row * count + k)));
          sum += weights.back();
        }
        Doubles by_weight(choices.size(), 0.0);
        double weighted = 0;
        double magnitude = 0;
        for (std::size_t k = 0; k < choices.size(); ++k) {
          weights[k] /= sum;
          auto const number = static_cast<std::size_t>(choices[k]);
          for (std::int64_t column = 0; column < width; ++column) {
            double const value = expert(choices[k], row, column);
            auto const out = static_cast<std::size_t>((gate * batch + row) * width + column);
            auto const in = static_cast<std::size_t>(row * width + column);
            output[out] += weights[k] * value;
            output_magnitudes[out] += weights[k] * std::abs(value);
            gradients[number][in] += weights[k] * dy.values[out];
            gradient_magnitudes[number][in] += weights[k] * std::abs(dy.values[out]);
            by_weight[k] += value * dy.values[out];
            magnitude += std::abs(value * dy.values[out]);
          }
          weighted += weights[k] * by_weight[k];
        }
        for (std::size_t k = 0; k < choices.size(); ++k) {
          of_logits[static_cast<std::size_t>(gate)].push_back(weights[k] *
                                                              (by_weight[k] - weighted));
          logits_magnitudes[static_cast<std::size_t>(gate)].push_back(2 * magnitude);
        }
      }
    }
    GradientTape tape(this->device());
    auto const y = ops::mix_experts(tape, experts, gates);
    static_assert(std::is_same_v<decltype(y), Tensor<T, R> const>);
    EXPECT_EQ(y.shape(), (Shape{2, batch, width}));
    expect_rounded_once(to_host(y), output, output_magnitudes);
    EXPECT_EQ(to_doubles(to_host(ops::mix_experts(no_tape, experts, gates))),
              to_doubles(to_host(y)));
    auto const wide = ops::cast<float>(dy.tensor);
    tape.backward(ops::sum(tape, ops::multiply(tape, ops::cast<float>(tape, y), wide)));
    expect_rounded_once(to_host(tape.gradient(alone.tensor)), gradients[0], gradient_magnitudes[0]);
    auto of_stacked = gradients[1];
    of_stacked.insert(of_stacked.end(), gradients[2].begin(), gradients[2].end());
    auto stacked_magnitudes = gradient_magnitudes[1];
    stacked_magnitudes.insert(
        stacked_magnitudes.end(), gradient_magnitudes[2].begin(), gradient_magnitudes[2].end());
    expect_rounded_once(to_host(tape.gradient(stacked.tensor)), of_stacked, stacked_magnitudes);
    expect_rounded_once(
        to_host(tape.gradient(first_logits.tensor)), of_logits[0], logits_magnitudes[0]);
    expect_rounded_once(
        to_host(tape.gradient(second_logits.tensor)), of_logits[1], logits_magnitudes[1]);
  }
};
TYPED_TEST_SUITE(HalfMixtureTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfMixtureTest, output_and_gradients_agree_with_double) {
  for (auto const& [batch, width] : {std::pair{1, 1}, {5, 3}, {9, 64}, {2, 300}}) {
    this->template expect_mixture<bfloat16>(batch, width);
    this->template expect_mixture<float16>(batch, width);
  }
}

TYPED_TEST(HalfMixtureTest, refuses_experts_of_other_shapes) {
  std::vector const experts{this->template any<bfloat16>({2, 3}),
                            this->template any<bfloat16>({2, 4})};
  std::vector<ops::GateLogits<TypeParam>> const gates{{this->any({2, 2}), {{0, 1}}}};
  expect_refused(
      [&] { (void)ops::mix_experts(no_tape, experts, gates); }, "mix_experts", "[2, 3]", "[2, 4]");
}

}  // namespace
}  // namespace msstream::testing
