// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"

#include <msstream/ops/loss.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace msstream::testing {
namespace {

template <class R>
class HalfLossesTest : public HalfTest<R> {
 protected:
  template <class T>
  void expect_bce(std::int64_t count) {
    SCOPED_TRACE(fmt::format("{} of {}", count, name_of(dtype_of<T>)));
    auto const x = this->template operand<T>({count}, -9.0F, 9.0F);
    auto const labels = this->template operand<float>({count}, 0.0F, 1.0F);
    auto const weights = this->template operand<float>({count}, 0.0F, 2.0F);
    for (float const pos_weight : {1.0F, 1.5F}) {
      Doubles losses;
      Doubles loss_magnitudes;
      Doubles gradients;
      Doubles gradient_magnitudes;
      for (std::int64_t i = 0; i < count; ++i) {
        double const z = labels.at(i);
        double const positive = weights.at(i) * pos_weight * z;
        double const negative = weights.at(i) * (1 - z);
        double const p = 1 / (1 + std::exp(-x.at(i)));
        losses.push_back(-positive * std::log(p) + negative * std::log1p(std::exp(x.at(i))));
        loss_magnitudes.push_back((positive + negative) * (1 + std::abs(x.at(i))));
        gradients.push_back(negative * p - positive * (1 - p));
        gradient_magnitudes.push_back(positive + negative);
      }
      auto const result = ops::bce_with_logits(
          x.tensor, labels.tensor, {.weight = weights.tensor, .pos_weight = pos_weight});
      static_assert(std::is_same_v<decltype(result.losses), Tensor<float, R>>);
      static_assert(std::is_same_v<decltype(result.gradients), Tensor<T, R>>);
      expect_rounded_once(to_host(result.losses), losses, loss_magnitudes);
      expect_rounded_once(to_host(result.gradients), gradients, gradient_magnitudes);
    }
  }

  template <class T>
  void expect_cross_entropy(std::int64_t batch, std::int64_t classes, float smoothing) {
    SCOPED_TRACE(fmt::format(
        "{} x {} of {}, smoothing {}", batch, classes, name_of(dtype_of<T>), smoothing));
    auto const x = this->template operand<T>({batch, classes}, -9.0F, 9.0F);
    auto const weights = this->template operand<float>({batch}, 0.5F, 2.0F);
    auto const chosen = this->random.integers(batch, 0, classes - 1);
    Doubles losses;
    Doubles loss_magnitudes;
    Doubles gradients;
    Doubles gradient_magnitudes;
    auto const n = static_cast<double>(classes);
    for (std::int64_t row = 0; row < batch; ++row) {
      double largest = 0;
      double sum = 0;
      double all = 0;
      for (std::int64_t c = 0; c < classes; ++c) {
        double const logit = x.at(row * classes + c);
        largest = std::max(largest, std::abs(logit));
        sum += std::exp(logit);
        all += logit / n;
      }
      double const weight = weights.at(row);
      auto const of_class = chosen[static_cast<std::size_t>(row)];
      double const s = smoothing;
      losses.push_back(weight *
                       (std::log(sum) - (1 - s) * x.at(row * classes + of_class) - s * all));
      loss_magnitudes.push_back(weight * (2 + 4 * largest));
      for (std::int64_t c = 0; c < classes; ++c) {
        double const p = std::exp(x.at(row * classes + c)) / sum;
        double const target = s / n + (c == of_class ? 1 - s : 0);
        gradients.push_back(weight * (p - target));
        gradient_magnitudes.push_back(weight * (p * (1 + 2 * largest) + target));
      }
    }
    auto const result =
        ops::softmax_cross_entropy(x.tensor,
                                   this->put(chosen),
                                   {.label_smoothing = smoothing, .sample_weight = weights.tensor});
    static_assert(std::is_same_v<decltype(result.gradients), Tensor<T, R>>);
    expect_rounded_once(to_host(result.losses), losses, loss_magnitudes);
    expect_rounded_once(to_host(result.gradients), gradients, gradient_magnitudes);
  }
};
TYPED_TEST_SUITE(HalfLossesTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfLossesTest, binary_cross_entropies_agree_with_double) {
  for (std::int64_t const count : {0, 1, 5, 300}) {
    this->template expect_bce<bfloat16>(count);
    this->template expect_bce<float16>(count);
    this->template expect_bce<float>(count);
  }
}

TYPED_TEST(HalfLossesTest, cross_entropies_agree_with_double) {
  for (auto const& [batch, classes] :
       {std::array{1, 1}, {7, 3}, {5, 33}, {2, 700}, {1, 1024}, {2, 2500}}) {
    for (float const smoothing : {0.0F, 0.25F}) {
      this->template expect_cross_entropy<bfloat16>(batch, classes, smoothing);
      this->template expect_cross_entropy<float16>(batch, classes, smoothing);
      this->template expect_cross_entropy<float>(batch, classes, smoothing);
    }
  }
}

TYPED_TEST(HalfLossesTest, ignored_examples_and_bad_classes_have_gradients_of_zero) {
  auto const x = this->template operand<float16>({3, 4});
  auto const bad = this->scalar(0);
  auto const result = ops::softmax_cross_entropy(
      x.tensor,
      this->put(Integers{-100, 9, 1}),
      {.out_of_range = ops::OutOfRange::count, .bad_id_count = bad, .ignore_index = -100});
  auto const gradients = to_doubles(to_host(result.gradients));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(gradients[i], 0.0);
  }
  EXPECT_LT(gradients[9], 0.0);
  EXPECT_EQ(to_host(bad), Integers{1});
}

}  // namespace
}  // namespace msstream::testing
