// SPDX-License-Identifier: Apache-2.0
#include "ops/half_values.hpp"

#include <msstream/ops/attention.hpp>
#include <msstream/ops/matrix.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace msstream::testing {
namespace {

struct HalfAttentionSizes {
  std::int64_t batch = 3;
  std::int64_t queries = 4;
  std::int64_t keys = 7;
  std::int64_t width = 5;
};

template <class R>
class HalfAttentionTest : public HalfTest<R> {
 protected:
  /// Compares scores and their gradients in type T with double, for queries and keys that are a
  /// batch or one matrix.
  template <class T>
  void expect_scores(bool queries_are_batch, bool keys_are_batch, bool with_lengths) {
    SCOPED_TRACE(fmt::format("{}, queries a {}, keys a {}, {} lengths",
                             name_of(dtype_of<T>),
                             queries_are_batch ? "batch" : "matrix",
                             keys_are_batch ? "batch" : "matrix",
                             with_lengths ? "with" : "without"));
    HalfAttentionSizes const of;
    auto const shape = [&](bool is_batch, std::int64_t rows, std::int64_t columns) {
      return is_batch ? Shape{of.batch, rows, columns} : Shape{rows, columns};
    };
    bool const batched = queries_are_batch || keys_are_batch;
    auto const batch = batched ? of.batch : 1;
    auto const q = this->template operand<T>(shape(queries_are_batch, of.queries, of.width));
    auto const k = this->template operand<T>(shape(keys_are_batch, of.keys, of.width));
    auto const dy = this->template operand<T>(shape(batched, of.queries, of.keys));
    Integers lengths(static_cast<std::size_t>(batch), of.keys);
    ops::AttentionOptions<R> options;
    if (with_lengths) {
      lengths[0] = 2;
      options.lengths = this->put(lengths);
    }
    double const factor = static_cast<double>(1.0F / std::sqrt(static_cast<float>(of.width)));
    auto const scores = ops::attention_scores(q.tensor, k.tensor, options);
    static_assert(std::is_same_v<decltype(scores), Tensor<T, R> const>);
    auto const given = to_doubles(to_host(scores));
    Doubles expected;
    Doubles magnitudes;
    auto const count = static_cast<std::size_t>(of.keys);
    struct Bounded {
      double value = 0;
      double bound = 0;  // of the error before the last rounding
    };
    std::vector<Bounded> dq(q.values.size());
    std::vector<Bounded> dk(k.values.size());
    auto const q_place = [&](std::int64_t b, std::int64_t row, std::int64_t c) {
      return ((queries_are_batch ? b : 0) * of.queries + row) * of.width + c;
    };
    auto const k_place = [&](std::int64_t b, std::int64_t row, std::int64_t c) {
      return ((keys_are_batch ? b : 0) * of.keys + row) * of.width + c;
    };
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t row = 0; row < of.queries; ++row) {
        auto const length = static_cast<std::size_t>(lengths[static_cast<std::size_t>(b)]);
        Doubles exponentials(count, 0.0);
        double sum = 0;
        double largest_magnitude = 0;
        for (std::size_t key = 0; key < length; ++key) {
          double product = 0;
          double magnitude = 0;
          for (std::int64_t c = 0; c < of.width; ++c) {
            double const term = factor * q.at(q_place(b, row, c)) *
                                k.at(k_place(b, static_cast<std::int64_t>(key), c));
            product += term;
            magnitude += std::abs(term);
          }
          largest_magnitude = std::max(largest_magnitude, magnitude);
          exponentials[key] = std::exp(product);
          sum += exponentials[key];
        }
        auto const first = expected.size();
        double total = 0;
        double total_magnitude = 0;
        for (std::size_t key = 0; key < count; ++key) {
          expected.push_back(exponentials[key] / sum);
          // An error of the products is a relative one of their exponentials.
          magnitudes.push_back(expected.back() * (1 + 2 * largest_magnitude));
          double const term = given[first + key] * dy.values[first + key];
          total += term;
          total_magnitude += std::abs(term);
        }
        for (std::size_t key = 0; key < count; ++key) {
          double const y = given[first + key];
          double const of_product = y * (dy.values[first + key] - total);
          double const error = rounding_bound<T>(
              of_product, kFloatError * y * (std::abs(dy.values[first + key]) + total_magnitude));
          for (std::int64_t c = 0; c < of.width; ++c) {
            auto const in_q = q_place(b, row, c);
            auto const in_k = k_place(b, static_cast<std::int64_t>(key), c);
            auto const add = [&](Bounded& to, double other) {
              to.value += factor * of_product * other;
              to.bound +=
                  factor * std::abs(other) * (error + kFloatError * (std::abs(of_product) + error));
            };
            add(dq[static_cast<std::size_t>(in_q)], k.at(in_k));
            add(dk[static_cast<std::size_t>(in_k)], q.at(in_q));
          }
        }
      }
    }
    expect_rounded_once(to_host(scores), expected, magnitudes);
    auto const gradients =
        ops::attention_scores_gradient(q.tensor, k.tensor, scores, dy.tensor, options);
    auto const expect_gradient = [](Tensor<T, R> const& actual, std::vector<Bounded> const& sums) {
      Doubles values;
      Doubles bounds;
      for (auto const& sum : sums) {
        values.push_back(sum.value);
        bounds.push_back(rounding_bound<T>(sum.value, sum.bound));
      }
      expect_bounded(to_host(actual), values, bounds);
    };
    EXPECT_EQ(gradients.left->shape(), q.tensor.shape());
    EXPECT_EQ(gradients.right->shape(), k.tensor.shape());
    expect_gradient(*gradients.left, dq);
    expect_gradient(*gradients.right, dk);
  }
};
TYPED_TEST_SUITE(HalfAttentionTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfAttentionTest, scores_and_their_gradients_agree_with_double) {
  for (bool const queries : {false, true}) {
    for (bool const keys : {false, true}) {
      for (bool const lengths : {false, true}) {
        this->template expect_scores<bfloat16>(queries, keys, lengths);
        this->template expect_scores<float16>(queries, keys, lengths);
      }
    }
  }
}

TYPED_TEST(HalfAttentionTest, products_of_queries_and_keys_are_not_rounded_before_the_softmax) {
  // The products are 256 and 257. In bfloat16 both are 256, and the scores would be equal.
  auto const q = this->put(rounded_to<bfloat16>(Floats{16.0F, 1.0F}), {1, 2});
  auto const k = this->put(rounded_to<bfloat16>(Floats{16.0F, 0.0F, 16.0F, 1.0F}), {2, 2});
  auto const scores = to_doubles(to_host(ops::attention_scores(q, k, {.factor = 1.0F})));
  EXPECT_NEAR(scores[0], 1 / (1 + std::exp(1.0)), 0.002);
  EXPECT_NEAR(scores[1], 1 / (1 + std::exp(-1.0)), 0.004);
}

TYPED_TEST(HalfAttentionTest, the_output_is_the_product_of_the_scores_and_the_values) {
  auto const q = this->template operand<bfloat16>({2, 3, 8});
  auto const k = this->template operand<bfloat16>({2, 5, 8});
  auto const v = this->template operand<bfloat16>({2, 5, 6});
  auto const output = ops::attention(q.tensor, k.tensor, v.tensor);
  auto const scores = to_doubles(to_host(ops::attention_scores(q.tensor, k.tensor)));
  Doubles expected;
  Doubles magnitudes;
  for (std::int64_t row = 0; row < 6; ++row) {
    for (std::int64_t c = 0; c < 6; ++c) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t key = 0; key < 5; ++key) {
        double const term =
            scores[static_cast<std::size_t>(row * 5 + key)] * v.at((row / 3 * 5 + key) * 6 + c);
        sum += term;
        magnitude += std::abs(term);
      }
      expected.push_back(sum);
      magnitudes.push_back(magnitude);
    }
  }
  EXPECT_EQ(output.shape(), (Shape{2, 3, 6}));
  expect_rounded_once(to_host(output), expected, magnitudes);
}

TYPED_TEST(HalfAttentionTest, keys_beyond_a_length_have_no_influence_even_if_they_are_nan) {
  auto const q = this->template operand<float16>({1, 2});
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  auto const k = this->put(rounded_to<float16>(Floats{1.0F, 2.0F, nan, nan}), {1, 2, 2});
  auto const scores = ops::attention_scores(q.tensor, k, {.lengths = this->put(Integers{1})});
  EXPECT_EQ(to_doubles(to_host(scores)), (Doubles{1.0, 0.0}));
}

}  // namespace
}  // namespace msstream::testing
