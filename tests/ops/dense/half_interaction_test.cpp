// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/interaction.hpp>

#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class HalfInteractionTest : public OpsTest<R> {
 protected:
  template <HalfElement T>
  std::vector<T> halves(std::int64_t count) {
    std::vector<T> values;
    for (float const value : this->random.reals(count)) {
      values.push_back(from_float<T>(value));
    }
    return values;
  }
  template <HalfElement T>
  static std::vector<std::uint16_t> bits(Tensor<T, R> const& tensor) {
    std::vector<std::uint16_t> all;
    for (auto const value : to_host(tensor)) {
      all.push_back(value.bits);
    }
    return all;
  }
  /// Expects sums of about `terms` products of numbers of at most 1, rounded to T once.
  template <HalfElement T>
  static void expect_rounded(std::vector<T> const& actual, Doubles const& expected, double terms) {
    ASSERT_EQ(actual.size(), expected.size());
    double const unit = std::is_same_v<T, float16> ? 0x1p-11 : 0x1p-8;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_LE(std::abs(to_float(actual[i]) - expected[i]),
                unit * std::abs(expected[i]) + terms * terms * 0x1p-23 + 0x1p-24)
          << "element " << i << " is " << actual[i] << ", not " << expected[i];
    }
  }
  /// Compares the outputs and gradients of `batch` samples with float64.
  template <HalfElement T>
  void compare(std::int64_t batch, std::int64_t features, std::int64_t width) {
    auto const vectors = features + 1;
    auto const outputs = width + vectors * features / 2;
    auto const dense = halves<T>(batch * width);
    auto const embeddings = halves<T>(batch * features * width);
    auto const gradient = halves<T>(batch * outputs);
    auto const element = [&](std::int64_t s, std::int64_t v, std::int64_t c) -> double {
      return to_float(
          v == 0 ? dense[static_cast<std::size_t>(s * width + c)]
                 : embeddings[static_cast<std::size_t>((s * features + v - 1) * width + c)]);
    };
    Doubles output;
    Doubles of_dense(dense.size(), 0.0);
    Doubles of_embeddings(embeddings.size(), 0.0);
    for (std::int64_t s = 0; s < batch; ++s) {
      auto const* next = gradient.data() + s * outputs;
      auto const gradient_of = [&](std::int64_t v, std::int64_t c) -> double& {
        return v == 0 ? of_dense[static_cast<std::size_t>(s * width + c)]
                      : of_embeddings[static_cast<std::size_t>((s * features + v - 1) * width + c)];
      };
      for (std::int64_t c = 0; c < width; ++c) {
        output.push_back(element(s, 0, c));
        gradient_of(0, c) += to_float(*next++);
      }
      for (std::int64_t i = 1; i < vectors; ++i) {
        for (std::int64_t j = 0; j < i; ++j) {
          double sum = 0;
          double const of_product = to_float(*next++);
          for (std::int64_t c = 0; c < width; ++c) {
            sum += element(s, i, c) * element(s, j, c);
            gradient_of(i, c) += of_product * element(s, j, c);
            gradient_of(j, c) += of_product * element(s, i, c);
          }
          output.push_back(sum);
        }
      }
    }
    auto const x = this->put(dense, {batch, width});
    auto const rows = this->put(embeddings, {batch, features, width});
    auto const dy = this->put(gradient, {batch, outputs});
    expect_rounded(to_host(ops::dot_interaction(x, rows)), output, static_cast<double>(width));
    auto const gradients = ops::dot_interaction_gradient(x, rows, dy);
    EXPECT_EQ(gradients.left->shape(), x.shape());
    EXPECT_EQ(gradients.right->shape(), rows.shape());
    expect_rounded(to_host(*gradients.left), of_dense, static_cast<double>(vectors));
    expect_rounded(to_host(*gradients.right), of_embeddings, static_cast<double>(vectors));
  }
};
TYPED_TEST_SUITE(HalfInteractionTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfInteractionTest, outputs_and_gradients_agree_with_double) {
  constexpr std::array<std::array<std::int64_t, 3>, 7> kSizes{
      {{6, 26, 128}, {5, 26, 63}, {17, 8, 32}, {3, 63, 40}, {3, 40, 7}, {2, 66, 16}, {9, 1, 1}}};
  for (auto const& [batch, features, width] : kSizes) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", batch, features, width));
    this->template compare<bfloat16>(batch, features, width);
    this->template compare<float16>(batch, features, width);
  }
}

TYPED_TEST(HalfInteractionTest, sums_are_float32_and_rounded_once) {
  // In bfloat16, 256 + 1 is 256, but the sum of all terms is 258.
  std::vector<bfloat16> const terms{
      from_float<bfloat16>(256.0F), from_float<bfloat16>(1.0F), from_float<bfloat16>(1.0F)};
  std::vector<bfloat16> const ones(3, from_float<bfloat16>(1.0F));
  auto const output =
      to_host(ops::dot_interaction(this->put(ones, {1, 3}), this->put(terms, {1, 1, 3})));
  EXPECT_EQ(to_float(output.back()), 258.0F);
}

TYPED_TEST(HalfInteractionTest, takes_flat_embeddings_and_gives_the_gradients_that_are_wanted) {
  auto const dense = this->put(this->template halves<float16>(5 * 4), {5, 4});
  auto const embeddings = this->put(this->template halves<float16>(5 * 12), {5, 12});
  auto const gradient = this->put(this->template halves<float16>(5 * 10), {5, 10});
  EXPECT_EQ(this->bits(ops::dot_interaction(dense, embeddings)),
            this->bits(ops::dot_interaction(dense, embeddings.reshaped({5, 3, 4}))));
  auto const both = ops::dot_interaction_gradient(dense, embeddings, gradient);
  EXPECT_EQ(both.right->shape(), embeddings.shape());
  auto const left = ops::dot_interaction_gradient(dense, embeddings, gradient, {.right = false});
  EXPECT_FALSE(left.right.has_value());
  EXPECT_EQ(this->bits(*left.left), this->bits(*both.left));
  auto const right = ops::dot_interaction_gradient(dense, embeddings, gradient, {.left = false});
  EXPECT_FALSE(right.left.has_value());
  EXPECT_EQ(this->bits(*right.right), this->bits(*both.right));
  auto const none =
      ops::dot_interaction_gradient(dense, embeddings, gradient, {.left = false, .right = false});
  EXPECT_FALSE(none.left.has_value() || none.right.has_value());
}

TYPED_TEST(HalfInteractionTest, takes_batches_without_samples_and_samples_without_features) {
  auto const none = ops::dot_interaction(this->template any<bfloat16>({0, 4}),
                                         this->template any<bfloat16>({0, 3, 4}));
  EXPECT_EQ(none.shape(), (Shape{0, 10}));
  auto const dense = this->put(this->template halves<bfloat16>(3 * 4), {3, 4});
  auto const nothing = this->template any<bfloat16>({3, 0, 4});
  EXPECT_EQ(this->bits(ops::dot_interaction(dense, nothing)), this->bits(dense));
  EXPECT_EQ(this->bits(*ops::dot_interaction_gradient(dense, nothing, dense).left),
            this->bits(dense));
}

TYPED_TEST(HalfInteractionTest, refuses_what_does_not_fit) {
  auto const dense = this->template any<bfloat16>({2, 4});
  auto const refuses = [&](Shape const& embeddings) {
    expect_refused(
        [&] { (void)ops::dot_interaction(dense, this->template any<bfloat16>(embeddings)); },
        "dot_interaction",
        "[2, 4] of bfloat16",
        embeddings);
  };
  refuses({3, 8});
  refuses({2, 7});
  refuses({2, 2, 3});
  refuses({16});
  auto const pairs = this->template any<bfloat16>({2, 8});
  expect_refused(
      [&] {
        (void)ops::dot_interaction_gradient(dense, pairs, this->template any<bfloat16>({2, 6}));
      },
      "dot_interaction_gradient",
      "[2, 6]");
}

}  // namespace
}  // namespace msstream::testing
