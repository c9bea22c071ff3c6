// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/attention.hpp>

#include <cmath>
#include <cstddef>
#include <limits>

namespace msstream::testing {
namespace {

using ::testing::Each;

constexpr std::size_t kAttending = 3;  // number of queries in a sample
constexpr std::size_t kAttended = 5;   // number of keys in a sample
constexpr std::size_t kInnerWidth = 4;

/// Returns the attention scores over the leading lengths[b] keys of each sample b, computed from
/// the definition. If there is only one matrix of queries or keys, all samples use it.
Doubles scores_in_double(Doubles const& queries,
                         Doubles const& keys,
                         double factor,
                         Integers const& lengths) {
  Doubles scores(lengths.size() * kAttending * kAttended, 0.0);
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    for (std::size_t q = 0; q < kAttending; ++q) {
      auto* const row = scores.data() + (b * kAttending + q) * kAttended;
      double sum = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(lengths[b]); ++k) {
        double product = 0;
        for (std::size_t c = 0; c < kInnerWidth; ++c) {
          product += queries[((b * kAttending + q) * kInnerWidth + c) % queries.size()] *
                     keys[((b * kAttended + k) * kInnerWidth + c) % keys.size()];
        }
        row[k] = std::exp(factor * product);
        sum += row[k];
      }
      for (std::size_t k = 0; k < kAttended; ++k) {
        row[k] = sum > 0 ? row[k] / sum : 0.0;
      }
    }
  }
  return scores;
}

template <class R>
class AttentionTest : public OpsTest<R> {
 protected:
  Shape const query_shape{3, kAttending, kInnerWidth};
  Shape const key_shape{3, kAttended, kInnerWidth};
  Floats queries = this->random.reals(query_shape.count(), -2.0F, 2.0F);
  Floats keys = this->random.reals(key_shape.count(), -2.0F, 2.0F);
  Integers const all{5, 5, 5};
  Integers const some{2, 5, 0};
};
TYPED_TEST_SUITE(AttentionTest, Runtimes, RuntimeNames);

TYPED_TEST(AttentionTest, scores_agree_with_double) {
  auto const q = this->put(this->queries, this->query_shape);
  auto const k = this->put(this->keys, this->key_shape);
  auto const in_double = [&](double factor, Integers const& lengths) {
    return scores_in_double(to_doubles(this->queries), to_doubles(this->keys), factor, lengths);
  };
  auto const scores = ops::attention_scores(q, k);
  EXPECT_EQ(scores.shape(), (Shape{3, kAttending, kAttended}));
  expect_near(to_host(scores), in_double(0.5, this->all), 1e-5);
  expect_near(to_host(ops::attention_scores(q, k, {.lengths = this->put(this->some)})),
              in_double(0.5, this->some),
              1e-5);
  expect_near(
      to_host(ops::attention_scores(q, k, {.lengths = this->put(this->some), .factor = -0.25F})),
      in_double(-0.25, this->some),
      1e-5);
}

TYPED_TEST(AttentionTest, a_matrix_serves_the_whole_batch) {
  auto const q = this->put(this->queries, this->query_shape);
  auto const k = this->put(this->keys, this->key_shape);
  auto const one_q = q.rows(1, 2).reshaped({kAttending, kInnerWidth});
  auto const one_k = k.rows(1, 2).reshaped({kAttended, kInnerWidth});
  auto const lengths = this->put(this->some);
  expect_near(to_host(ops::attention_scores(one_q, k, {.lengths = lengths})),
              scores_in_double(to_doubles(to_host(one_q)), to_doubles(this->keys), 0.5, this->some),
              1e-5);
  expect_near(
      to_host(ops::attention_scores(q, one_k, {.lengths = lengths})),
      scores_in_double(to_doubles(this->queries), to_doubles(to_host(one_k)), 0.5, this->some),
      1e-5);
  auto const alone = ops::attention_scores(one_q, one_k, {.lengths = this->scalar(4)});
  EXPECT_EQ(alone.shape(), (Shape{kAttending, kAttended}));
  expect_near(to_host(alone),
              scores_in_double(to_doubles(to_host(one_q)), to_doubles(to_host(one_k)), 0.5, {4}),
              1e-5);
}

TYPED_TEST(AttentionTest, keys_beyond_a_length_have_no_influence) {
  auto poisoned = this->keys;
  for (std::size_t i = 2 * kInnerWidth; i < kAttended * kInnerWidth; ++i) {
    poisoned[i] = std::numeric_limits<float>::quiet_NaN();
  }
  auto const q = this->put(this->queries, this->query_shape);
  auto const lengths = this->put(this->some);
  auto const scores_of = [&](Floats const& keys) {
    return to_host(
        ops::attention_scores(q, this->put(keys, this->key_shape), {.lengths = lengths}));
  };
  auto const scores = scores_of(poisoned);
  EXPECT_EQ(scores, scores_of(this->keys));
  EXPECT_THAT(Floats(scores.end() - kAttending * kAttended, scores.end()), Each(0.0F));
}

TYPED_TEST(AttentionTest, sums_values_by_scores) {
  constexpr std::size_t kOutputs = 2;
  auto const values = this->random.reals(3 * kAttended * kOutputs);
  auto const scores =
      scores_in_double(to_doubles(this->queries), to_doubles(this->keys), 0.5, this->some);
  Doubles expected(3 * kAttending * kOutputs, 0.0);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    auto const batch = i / (kAttending * kAttended);
    for (std::size_t o = 0; o < kOutputs; ++o) {
      expected[i / kAttended * kOutputs + o] +=
          scores[i] * double{values[(batch * kAttended + i % kAttended) * kOutputs + o]};
    }
  }
  auto const attended = ops::attention(this->put(this->queries, this->query_shape),
                                       this->put(this->keys, this->key_shape),
                                       this->put(values, {3, kAttended, kOutputs}),
                                       {.lengths = this->put(this->some)});
  EXPECT_EQ(attended.shape(), (Shape{3, kAttending, kOutputs}));
  expect_near(to_host(attended), expected, 1e-5);
}

TYPED_TEST(AttentionTest, computes_only_the_gradients_that_are_wanted) {
  auto const q = this->put(this->queries, this->query_shape);
  auto const k = this->put(this->keys, this->key_shape);
  auto const scores = ops::attention_scores(q, k);
  auto const gradient = this->random_tensor(scores.shape());
  auto const before = this->device().operation_count();
  auto const none =
      ops::attention_scores_gradient(q, k, scores, gradient, {}, {.left = false, .right = false});
  EXPECT_FALSE(none.left || none.right);
  EXPECT_EQ(this->device().operation_count(), before);
  auto const both = ops::attention_scores_gradient(q, k, scores, gradient);
  EXPECT_EQ(this->device().operation_count(), before + 3);
  auto const of_keys =
      ops::attention_scores_gradient(q, k, scores, gradient, {}, {.left = false, .right = true});
  EXPECT_FALSE(of_keys.left);
  EXPECT_EQ(to_host(*of_keys.right), to_host(*both.right));
}

TYPED_TEST(AttentionTest, refuses_shapes_that_do_not_fit) {
  auto const q = this->any({2, 3, 4});
  expect_refused(
      [&] {
        (void)ops::attention_scores(q, this->any({2, 3, 5}));
      },
      "attention_scores",
      "queries [2, 3, 4]",
      "keys [2, 3, 5]");
  expect_refused([&] { (void)ops::attention_scores(q, this->any({3, 3, 4})); }, "[3, 3, 4]");
  expect_refused([&] { (void)ops::attention_scores(q, this->any({4})); }, "[4]");
  expect_refused(
      [&] {
        (void)ops::attention_scores(q, q, {.lengths = this->put(Integers{1, 1, 1, 1})});
      },
      "lengths [4]");
}

}  // namespace
}  // namespace msstream::testing
